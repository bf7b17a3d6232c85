// Pages work without this. It shows times in the reader's zone, copies, asks before what cannot be undone,
// and keeps what is marked as live up to date.
"use strict";

const each = (selector, work, root = document) => root.querySelectorAll(selector).forEach(work);

// --- times ---------------------------------------------------------------------------------------------------------

const WHEN = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
const HOUR = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
const EXACT = new Intl.DateTimeFormat(undefined, { dateStyle: "full", timeStyle: "long" });

function localise(root) {
  each("time[datetime]", (time) => {
    const at = new Date(time.getAttribute("datetime"));
    if (Number.isNaN(at.getTime())) return;
    time.textContent = WHEN.format(at);
    time.title = `${EXACT.format(at)} (${time.getAttribute("datetime")})`;
  }, root);
  each("svg text[data-step=hour]", (text) => { text.textContent = HOUR.format(new Date(text.dataset.at)); }, root);
  each("svg text[data-step=day]", placeDay, root);
  each("svg title[data-at]", (title) => {
    const [at, until] = [new Date(title.dataset.at), new Date(title.dataset.until)];
    const day = at.toLocaleDateString(undefined, { month: "short", day: "numeric" });
    const said = title.dataset.step === "hour" ? HOUR.format(at) : `${day}, ${HOUR.format(at)} to ${HOUR.format(until)}`;
    title.textContent = title.textContent.replace(/^.*? UTC(?=:)/, () => said);
  }, root);
}

// A day of the reader begins elsewhere on the chart than a day in UTC, which its label stands under.
function placeDay(text) {
  const at = new Date(text.dataset.at);
  const [early, late] = [0, 1].map((days) => new Date(at.getFullYear(), at.getMonth(), at.getDate() + days));
  const begins = at - early <= late - at ? early : late;
  const x = Number(text.getAttribute("x")) + (begins - at) / 86400000 * Number(text.dataset.day);
  text.setAttribute("x", x);
  text.dataset.at = begins.toISOString(); // it stands there now, however often it is looked at
  text.textContent = begins.toLocaleDateString(undefined, { weekday: "short", day: "numeric" });
  const isOutside = x < Number(text.dataset.from) || x > Number(text.dataset.to);
  if (isOutside) text.textContent = "";
}

// <input type="datetime-local" data-utc>: shown and typed in the reader's zone, sent in UTC; <span data-zone> says which.
function localiseFields() {
  each("[data-zone]", (zone) => { zone.textContent = "your time"; });
  each("input[data-utc]", (input) => {
    const at = new Date(`${input.getAttribute("value")}Z`);
    if (!Number.isNaN(at.getTime())) input.value = unzoned(new Date(at - at.getTimezoneOffset() * 60000));
  });
}

// As such an input wants it, and as the server takes for UTC: 2026-08-22T10:00, with seconds only where there are any.
const unzoned = (at) => at.toISOString().slice(0, 19).replace(/:00$/, "");

document.addEventListener("formdata", (event) => each("input[data-utc]", (input) => {
  const at = new Date(input.value);
  if (!Number.isNaN(at.getTime())) event.formData.set(input.name, unzoned(at));
}, event.target));

// A countdown to the next attempt: <span data-countdown="ISO moment">.
function countDown() {
  each("[data-countdown]", (place) => {
    const seconds = Math.round((new Date(place.dataset.countdown) - Date.now()) / 1000);
    const [hours, minutes] = [Math.floor(seconds / 3600), Math.floor((seconds % 3600) / 60)];
    if (seconds <= 0) place.textContent = "now";
    else if (hours) place.textContent = `in ${hours} h ${minutes} min`;
    else place.textContent = minutes ? `in ${minutes} min ${seconds % 60} s` : `in ${seconds} s`;
  });
}

// --- what is too large --------------------------------------------------------------------------------------------

const LARGEST = Number(document.documentElement.dataset.largestForm); // bytes
const isTooLarge = (body) => body.toString().length > LARGEST;

// The server would refuse it, and a page that is left loses what was typed.
document.addEventListener("submit", (event) => {
  const form = event.target;
  each(":scope > .notice.large", (old) => old.remove(), form);
  if (form.method !== "post" || !isTooLarge(new URLSearchParams(new FormData(form)))) return;
  event.preventDefault();
  event.stopImmediatePropagation();
  const said = document.createElement("p");
  said.className = "notice bad large";
  said.setAttribute("role", "alert");
  said.textContent = `Nothing was sent: this is more than the ${LARGEST / 1024} KiB that a form may have. Make it shorter.`;
  form.prepend(said);
  said.scrollIntoView({ block: "nearest" });
});

// --- copying and asking --------------------------------------------------------------------------------------------

async function copy(button) {
  const place = document.getElementById(button.dataset.copy);
  const before = button.textContent;
  try {
    await navigator.clipboard.writeText(place.value ?? place.textContent);
    button.textContent = "Copied";
  } catch {
    const range = document.createRange();
    if (place.select) place.select();
    else { range.selectNodeContents(place); getSelection().removeAllRanges(); getSelection().addRange(range); }
    button.textContent = "Selected";
  }
  setTimeout(() => { button.textContent = before; }, 1500);
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-copy]");
  if (button) copy(button);
  each("details.menu[open]", (menu) => { if (!menu.contains(event.target)) menu.open = false; });
});

document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") each("details.menu[open]", (menu) => { menu.open = false; menu.querySelector("summary").focus(); });
});

document.addEventListener("submit", (event) => {
  const question = event.target.dataset.confirm;
  if (question && !confirm(question)) event.preventDefault();
});

// --- live ----------------------------------------------------------------------------------------------------------

// <div data-live="2" id="…" data-etag="…"> is fetched again from this address (or data-from) every so many seconds, while
// the page is looked at; the server says by the ETag when it has not changed. What has an id and the same data-version
// stays as it is, with all that was opened or chosen in it; what is new or changed is marked.
function morph(place, fresh) {
  const focused = place.contains(document.activeElement) ? selectorOf(document.activeElement) : "";
  localise(fresh);
  holdStill(place, () => {
    keepRows(place, fresh);
    place.replaceChildren(...fresh.childNodes);
    countDown();
  });
  Object.assign(place.dataset, fresh.dataset);
  if (focused) place.querySelector(focused)?.focus({ preventScroll: true });
}

function keepRows(place, fresh) {
  const before = new Map();
  each("[id][data-version]", (row) => before.set(row.id, row), place);
  each("[id][data-version]", (row) => {
    const kept = before.get(row.id);
    if (kept) kept.classList.remove("fresh"); // it would begin to shine anew
    if (kept && kept.dataset.version === row.dataset.version) row.replaceWith(kept);
    else if (before.size) row.classList.add("fresh");
  }, fresh);
}

// How to find it again in what takes its place: by its id, or by what it copies.
function selectorOf(element) {
  if (element.id) return `[id="${CSS.escape(element.id)}"]`;
  return element.dataset.copy ? `[data-copy="${CSS.escape(element.dataset.copy)}"]` : "";
}

// Whoever has scrolled into a list goes on reading where they are, whatever is put above it.
function holdStill(place, change) {
  const topOf = (row) => row.getBoundingClientRect().top;
  const isScrolled = topOf(place) < 0;
  const seen = [...place.querySelectorAll("[id][data-version]")].filter((row) => row.getBoundingClientRect().bottom > 0);
  const before = isScrolled ? seen.map((row) => [row.id, topOf(row)]) : [];
  change();
  const [id, top] = before.find(([each]) => document.getElementById(each)) || [];
  if (id) scrollBy({ top: topOf(document.getElementById(id)) - top, behavior: "instant" });
}

function isBusy(place) {
  const chosen = getSelection();
  return document.hidden || place.isPaused || !chosen.isCollapsed && place.contains(chosen.anchorNode);
}

// Says whether the page is up to date, and lets the reader stop it: <span data-live-note="id of the live part" hidden>.
function tellLive(place, text, isLive) {
  each(`[data-live-note="${place.id}"]`, (note) => {
    const said = note.querySelector("[role=status]");
    note.hidden = false;
    note.classList.toggle("lost", !isLive);
    if (said.textContent !== text) said.textContent = text;
  });
}

function pauseOrResume(place, button) {
  place.isPaused = !place.isPaused;
  button.setAttribute("aria-pressed", String(place.isPaused));
  tellLive(place, place.isPaused ? "Paused" : "Live", !place.isPaused);
  look(place);
}

async function refresh(place) {
  const headers = { "X-Fragment": place.id, "If-None-Match": `"${place.dataset.etag}"` };
  const answer = await fetch(place.dataset.from || location.href, { headers, redirect: "manual", cache: "no-store" });
  if (answer.type === "opaqueredirect") return tellLive(place, "You are signed out: reload to sign in", false);
  if (!answer.ok && answer.status !== 304) return tellLive(place, "Not up to date: the server cannot answer", false);
  if (!place.isPaused) tellLive(place, "Live", true);
  if (answer.status === 304) return;
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById(place.id);
  if (!fresh || isBusy(place) || fresh.outerHTML === place.lastSeen) return;
  place.lastSeen = fresh.outerHTML;
  morph(place, fresh);
}

function keepLive(place) {
  const wait = () => setTimeout(turn, (Number(place.dataset.live) || 2) * 1000);
  const turn = async () => { await look(place); wait(); };
  tellLive(place, "Live", true);
  each(`[data-live-note="${place.id}"] button`, (button) => {
    button.addEventListener("click", () => pauseOrResume(place, button));
  });
  wait();
}

async function look(place) {
  try { if (!isBusy(place)) await refresh(place); }
  catch { tellLive(place, "Not up to date: no connection", false); }
}

// --- filters -------------------------------------------------------------------------------------------------------

// <form data-tidy>: fields that say nothing are left out of the address.
document.addEventListener("formdata", (event) => {
  if (!event.target.hasAttribute("data-tidy")) return;
  for (const [name, value] of [...event.formData]) if (value === "") event.formData.delete(name);
});

// <input data-chooses="id of a radio button">: to type here is to choose that.
document.addEventListener("input", (event) => {
  const choice = document.getElementById(event.target.dataset?.chooses || "");
  if (choice) choice.checked = true;
});

// --- the provider form ---------------------------------------------------------------------------------------------

// Rows of a list are added from a <template>, one at a time; without script the buttons submit and do the same.
function addRow(button) {
  const list = document.getElementById(button.dataset.add);
  const row = document.getElementById(button.dataset.template).content.cloneNode(true);
  list.append(row);
  number(list);
  list.lastElementChild.querySelector("input").focus();
}

// Inputs are known by the place of their row, as the server knows them: <div data-rows="request_headers">.
function number(list) {
  list.querySelectorAll("[data-row]").forEach((row, place) => each("[data-part]", (input) => {
    input.id = `${list.dataset.rows}[${place}].${input.dataset.part}`;
    input.setAttribute("aria-describedby", `${input.id}-mistake`);
  }, row));
}

document.addEventListener("click", (event) => {
  const add = event.target.closest("[data-add]");
  const remove = event.target.closest("[data-remove]");
  if (add) { event.preventDefault(); addRow(add); }
  if (remove) {
    event.preventDefault();
    const list = remove.closest("[data-rows]");
    const form = remove.form;
    remove.closest("[data-row]").remove();
    number(list);
    form.querySelector(`[data-add="${list.id}"]`).focus();
    form.dispatchEvent(new Event("input", { bubbles: true }));
  }
});

// Dots stand for a value that is stored: whoever comes to change it replaces all of them.
document.addEventListener("focusin", (event) => {
  if (event.target.matches("[data-part]") && event.target.value === "••••") event.target.select();
});

// Whoever has signed in anew in another tab goes on typing here: the forms of this page then are of the new session.
function renewToken(answer) {
  const token = answer.headers.get("X-Form-Token");
  const isNew = token && document.querySelector("input[name=form_token]")?.value !== token;
  if (isNew) each("input[name=form_token]", (input) => { input.value = token; });
  return isNew;
}

// <form data-preview="address" data-preview-into="id">: what the form says now, as the server would send it.
function keepPreview(form) {
  let timer = 0, latest = 0;
  const show = async () => {
    const mine = ++latest;
    const place = document.getElementById(form.dataset.previewInto);
    const body = new URLSearchParams(new FormData(form));
    if (isTooLarge(body)) { place.textContent = "This is too long to be sent."; return; }
    const answer = await fetch(form.dataset.preview, { method: "POST", body, headers: { "X-Fragment": place.id } });
    if (mine !== latest) return;
    if (renewToken(answer)) { await show(); return; }
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    place.replaceChildren(...(page.getElementById(place.id) || page.body).childNodes);
  };
  const soon = () => { clearTimeout(timer); timer = setTimeout(() => show().catch(() => {}), 150); };
  form.addEventListener("input", soon);
  form.addEventListener("change", soon);
}

// What the server found wrong stands beside its field, and nothing that is being typed meanwhile is touched.
function showMistakes(form, page) {
  each(".mistake", (old) => old.remove(), form);
  each(".wrong", (field) => field.classList.remove("wrong"), form);
  each("[aria-invalid]", (input) => input.removeAttribute("aria-invalid"), form);
  each(".mistake[id]", (mistake) => {
    const name = mistake.id.replace(/-mistake$/, "");
    const input = document.getElementById(name);
    const field = input?.closest(".field") || form.querySelector(`[name="${name}"], [data-rows="${name}"]`)?.closest("fieldset");
    if (!field) return;
    input?.setAttribute("aria-invalid", "true");
    field.classList.add("wrong");
    field.append(mistake);
  }, page);
}

// <button data-into="id">, also with a formaction: the answer is shown in place, and the form stays as it is.
document.addEventListener("submit", async (event) => {
  const button = event.submitter;
  if (!button || !button.dataset.into) return;
  event.preventDefault();
  const place = document.getElementById(button.dataset.into);
  const said = button.textContent;
  button.disabled = true;
  button.textContent = button.dataset.meanwhile || said;
  try {
    const answer = await fetch(button.hasAttribute("formaction") ? button.formAction : event.target.action, {
      method: "POST", body: new URLSearchParams(new FormData(event.target)), headers: { "X-Fragment": place.id },
    });
    renewToken(answer);
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const fresh = page.getElementById(place.id);
    place.replaceChildren(...(fresh || page.getElementById("main")).childNodes);
    showMistakes(event.target, page);
    localise(place);
    place.scrollIntoView({ block: "nearest" });
  } catch {
    place.textContent = "The network is away: nothing was sent. Try again.";
  }
  button.disabled = false;
  button.textContent = said;
});

// Pressed twice, it is sent once; after a while, or when one comes back to the page, it can be sent again.
document.addEventListener("submit", (event) => {
  const form = event.target;
  if (event.defaultPrevented || form.method !== "post") return;
  if (form.isUnderWay) event.preventDefault();
  form.isUnderWay = true;
  setTimeout(() => { form.isUnderWay = false; }, 5000);
});

addEventListener("pageshow", () => each("form", (form) => { form.isUnderWay = false; }));

// --- begin ---------------------------------------------------------------------------------------------------------

each("[data-live]", (place) => { place.lastSeen = place.outerHTML; }); // as it was sent: before anything is localised
localise(document);
localiseFields();
each("[data-live]", keepLive);
each("form[data-preview]", keepPreview);
countDown();
setInterval(countDown, 1000);
