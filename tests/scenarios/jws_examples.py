"""The signed examples of RFC 7515 (appendix A) and RFC 7520 (section 4), with the keys that verify them."""

from dataclasses import dataclass

Jwk = dict[str, str]

JOE = "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ"
FRODO = (
    "SXTigJlzIGEgZGFuZ2Vyb3VzIGJ1c2luZXNzLCBGcm9kbywgZ29pbmcgb3V0IHlvdXIgZG9vci4gWW91IHN0ZXAgb250byB0aGUg"
    "cm9hZCwgYW5kIGlmIHlvdSBkb24ndCBrZWVwIHlvdXIgZmVldCwgdGhlcmXigJlzIG5vIGtub3dpbmcgd2hlcmUgeW91IG1pZ2h0"
    "IGJlIHN3ZXB0IG9mZiB0by4"
)

A2_MODULUS = (
    "ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yR"
    "T-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXB"
    "dQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9ia"
    "GNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ"
)
BILBO_MODULUS = (
    "n4EPtAOCc9AlkeQHPzHStgAbgs7bTZLwUBZdR8_KuKPEHLd4rHVTeT-O-XV2jRojdNhxJWTDvNd7nqQ0VEiZQHz_AJmSCpMaJMRB"
    "SFKrKb2wqVwGU_NsYOYL-QtiWN2lbzcEe6XC0dApr5ydQLrHqkHHig3RBordaZ6Aj-oBHqFEHYpPe7Tpe-OfVfHd1E6cS6M1FZcD"
    "1NNLYD5lFHpPI9bTwJlsde3uhGqC0ZCuEHg8lhzwOHrtIQbS0FVbb9k3-tVTU4fg_3L_vniUFAKwuCLqKnS2BYwdq_mzSnbLY7h_"
    "qixoR7jig3__kRhuaxwUkRz5iaiQkqgc5gHdrNP5zw"
)

A2_SIGNATURE = (
    "cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5jujGbds9"
    "uJdbF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB"
    "_eSN9383LcOLn6_dO--xi12jzDwusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rq"
    "Vt5AXLIhWkWywlVmtVrBp0igcN_IoypGlUPQGe77Rw"
)
A3_SIGNATURE = "DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q"
A4_SIGNATURE = (
    "AdwMgeerwtHoh-l192l60hp9wAHZFVJbLfD_UxMi70cwnZOYaRI1bKPWROc-mZZqwqT2SI-KGDKB34XO0aw_7XdtAG8GaSwFKdCA"
    "PZgoXD2YBJZCPEX3xKpRwcdOO8KpEHwJjyqOgzDO7iKvU8vcnwNrmxYbSW9ERBXukOXolLzeO_Jn"
)
RS256_SIGNATURE = (
    "MRjdkly7_-oTPTS3AXP41iQIGKa80A0ZmTuV5MEaHoxnW2e5CZ5NlKtainoFmKZopdHM1O2U4mwzJdQx996ivp83xuglII7PNDi8"
    "4wnB-BDkoBwA78185hX-Es4JIwmDLJK3lfWRa-XtL0RnltuYv746iYTh_qHRD68BNt1uSNCrUCTJDt5aAE6x8wW1Kt9eRo4QPocS"
    "adnHXFxnt8Is9UzpERV0ePPQdLuW3IS_de3xyIrDaLGdjluPxUAhb6L2aXic1U12podGU0KLUQSE_oI-ZnmKJ3F4uOZDnd6QZWJu"
    "shZ41Axf_fcIe8u9ipH84ogoree7vjbU5y18kDquDg"
)
PS384_SIGNATURE = (
    "cu22eBqkYDKgIlTpzDXGvaFfz6WGoz7fUDcfT0kkOy42miAh2qyBzk1xEsnk2IpN6-tPid6VrklHkqsGqDqHCdP6O8TTB5dDDItl"
    "lVo6_1OLPpcbUrhiUSMxbbXUvdvWXzg-UD8biiReQFlfz28zGWVsdiNAUf8ZnyPEgVFn442ZdNqiVJRmBqrYRXe8P_ijQ7p8Vdz0"
    "TTrxUeT3lm8d9shnr2lfJT8ImUjvAA2Xez2Mlp8cBE5awDzT0qI0n6uiP1aCN_2_jLAeQTlqRHtfa64QQSUmFAAjVKPbByi7xho0"
    "uTOcbH510a6GYmJUAfmWjwZ6oD4ifKo8DYM-X72Eaw"
)
ES512_SIGNATURE = (
    "AE_R_YZCChjn4791jSQCrdPZCNYqHXCTZH0-JZGYNlaAjP2kqaluUIIUnC9qvbu9Plon7KRTzoNEuT4Va2cmL1eJAQy3mtPBu_u_"
    "sDDyYjnAMDxXPn7XrT0lw-kvAD890jl8e2puQens_IEKBpHABlsbEPX6sFY8OcGDqoRuBomu9xQ2"
)

HS256_KEY: Jwk = {
    "kty": "oct",
    "k": "AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow",
}
ES256_KEY: Jwk = {
    "kty": "EC",
    "crv": "P-256",
    "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",
    "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0",
    "d": "jpsQnnGQmL-YBIffH1136cspYG6-0iY7X1fCE9-E9LI",
}
ES512_KEY: Jwk = {
    "kty": "EC",
    "crv": "P-521",
    "x": "AekpBQ8ST8a8VcfVOTNl353vSrDCLLJXmPk06wTjxrrjcBpXp5EOnYG_NjFZ6OvLFV1jSfS9tsz4qUxcWceqwQGk",
    "y": "ADSmRA43Z1DSNx_RvcLI87cdL07l6jQyyBXMoxVg_l2Th-x3S1WDhjDly79ajL4Kkd0AZMaZmh9ubmf63e3kyMj2",
}
BILBO_ES512: Jwk = {
    "kty": "EC",
    "crv": "P-521",
    "x": "AHKZLLOsCOzz5cY97ewNUajB957y-C-U88c3v13nmGZx6sYl_oJXu9A5RkTKqjqvjyekWF-7ytDyRXYgCF5cj0Kt",
    "y": "AdymlHvOiLxXkEhayXQnNCvDX4h9htZaCJN34kfmC6pV5OhQHiraVySsUdaQkAgDPrwQrJmbnX9cwlGfP-HqHZR1",
}
SHARED_HS256: Jwk = {"kty": "oct", "k": "hJtXIZ2uSN5kbQfbtTNWbpdmhkV8FJG-Onbc6mxCcYg"}
A2_RS256: Jwk = {"kty": "RSA", "n": A2_MODULUS, "e": "AQAB"}
BILBO_RSA: Jwk = {"kty": "RSA", "n": BILBO_MODULUS, "e": "AQAB"}

BILBO = "ImtpZCI6ImJpbGJvLmJhZ2dpbnNAaG9iYml0b24uZXhhbXBsZSJ9"
SHARED = "ImtpZCI6IjAxOGMwYWU1LTRkOWItNDcxYi1iZmQ2LWVlZjMxNGJjNzAzNyJ9"


@dataclass(frozen=True)
class Example:
    """In the compact form, with the key that verifies it."""

    algorithm: str
    key: Jwk
    token: str


A1_HEADER = "eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9"
COMPACT = {
    "RFC 7515 A.1": Example("HS256", HS256_KEY, f"{A1_HEADER}.{JOE}.dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"),
    "RFC 7515 A.2": Example("RS256", A2_RS256, f"eyJhbGciOiJSUzI1NiJ9.{JOE}.{A2_SIGNATURE}"),
    "RFC 7515 A.3": Example("ES256", ES256_KEY, f"eyJhbGciOiJFUzI1NiJ9.{JOE}.{A3_SIGNATURE}"),
    "RFC 7515 A.4": Example("ES512", ES512_KEY, f"eyJhbGciOiJFUzUxMiJ9.UGF5bG9hZA.{A4_SIGNATURE}"),
    "RFC 7520 4.1": Example("RS256", BILBO_RSA, f"eyJhbGciOiJSUzI1NiIs{BILBO}.{FRODO}.{RS256_SIGNATURE}"),
    "RFC 7520 4.2": Example("PS384", BILBO_RSA, f"eyJhbGciOiJQUzM4NCIs{BILBO}.{FRODO}.{PS384_SIGNATURE}"),
    "RFC 7520 4.3": Example("ES512", BILBO_ES512, f"eyJhbGciOiJFUzUxMiIs{BILBO}.{FRODO}.{ES512_SIGNATURE}"),
    "RFC 7520 4.4": Example(
        "HS256", SHARED_HS256, f"eyJhbGciOiJIUzI1NiIs{SHARED}.{FRODO}.s0h6KThzkfBBBkLspW1h84VsJZFTsPPqMDA7g1Md7p0"
    ),
}
OTHER_FORMS = {
    "RFC 7515 A.5, not secured": f"eyJhbGciOiJub25lIn0.{JOE}.",
    "RFC 7515 A.6, two signatures": (
        f'{{"payload":"{JOE}","signatures":['
        f'{{"protected":"eyJhbGciOiJSUzI1NiJ9","header":{{"kid":"2010-12-29"}},"signature":"{A2_SIGNATURE}"}},'
        f'{{"protected":"eyJhbGciOiJFUzI1NiJ9","header":{{"kid":"e9bc097a"}},"signature":"{A3_SIGNATURE}"}}]}}'
    ),
    "RFC 7515 A.7, flattened": (
        f'{{"payload":"{JOE}","protected":"eyJhbGciOiJFUzI1NiJ9","header":{{"kid":"e9bc097a"}},'
        f'"signature":"{A3_SIGNATURE}"}}'
    ),
    "RFC 7520 4.5, detached": f"eyJhbGciOiJIUzI1NiIs{SHARED}..s0h6KThzkfBBBkLspW1h84VsJZFTsPPqMDA7g1Md7p0",
    "RFC 7520 4.6, a header that is not signed": (
        f'{{"payload":"{FRODO}","protected":"eyJhbGciOiJIUzI1NiJ9",'
        '"header":{"kid":"018c0ae5-4d9b-471b-bfd6-eef314bc7037"},'
        '"signature":"bWUSVaxorn7bEF1djytBd0kHv70Ly5pvbomzMWSOr20"}'
    ),
}
