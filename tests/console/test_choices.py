"""What can be chosen: the groups and providers there are, by name."""

from billhook.accounts.installation import Installation
from billhook.console.choices import list_choices
from billhook.delivery import control
from tests.delivery.support import make_team
from tests.groups.setting import NOW, make_provider
from tests.support import OPERATOR, another_organization


async def test_groups_and_providers_are_offered_by_name(installation: Installation) -> None:
    pets = await make_team(installation, name="Pets")
    await make_team(installation, 0, "Empty")
    await make_team(installation, name="Theirs", organization_id=await another_organization(installation))
    await make_provider(installation, pets.group.id, name="Archive")
    gone = await make_team(installation, name="Gone")
    async with installation.db.transaction() as tx:
        await control.delete_group(tx, gone.group.id, author=OPERATOR, now=NOW)
        found = await list_choices(tx, pets.group.organization_id)
    assert [(group.name, [each.name for each in group.providers]) for group in found] == [
        ("Empty", []),
        ("Pets", ["Archive", "Pager"]),
    ]
    assert found[1].id == pets.group.id
    assert found[1].providers[1].id == pets.provider.id


async def test_deleted_providers_are_not_offered(installation: Installation) -> None:
    team = await make_team(installation)
    async with installation.db.transaction() as tx:
        await control.delete_provider(tx, None, team.provider.id, author=OPERATOR, now=NOW)
        (group,) = await list_choices(tx, team.group.organization_id)
    assert group.providers == ()
