"""Compares our verifier of JSON Web Tokens with PyJWT and its library cryptography (Debian's python3-jwt).

Usage: jwt_oracle_test.py JWT_DUMP

PyJWT makes keys and tokens: good ones, and ones with a changed character, claim, key or algorithm. Both must come to the
same verdict. PyJWT is asked with the same rules as ours: issuer, audience, required claims, base64url as an encoder
writes it, and no leeway for `exp`.
"""

import base64
import json
import random
import subprocess
import sys

try:
    import jwt
    from cryptography.hazmat.primitives.asymmetric import ec, rsa
except ImportError as error:
    sys.exit(f"jwt_oracle_test: {error}: tools/setup installs python3-jwt and python3-cryptography")

NOW, SEED = 1_800_000_000, 20261126
ISSUER, AUDIENCE = "https://issuer", "escapement"
ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"


def number(value, size):
    return base64.urlsafe_b64encode(value.to_bytes(size, "big")).rstrip(b"=").decode()


def jwk(kid, key):
    public = key.public_key().public_numbers()
    if isinstance(key, rsa.RSAPrivateKey):
        return {"kty": "RSA", "kid": kid, "n": number(public.n, key.key_size // 8), "e": number(public.e, 3)}
    return {"kty": "EC", "crv": "P-256", "kid": kid, "x": number(public.x, 32), "y": number(public.y, 32)}


def algorithm_of(key):
    return "RS256" if isinstance(key, rsa.RSAPrivateKey) else "ES256"


def is_canonical(token):
    """False if a part is not as an encoder writes it. PyJWT ignores the unused bits of a last character."""
    parts = token.split(".")
    return all(base64.urlsafe_b64encode(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))).rstrip(b"=") == part.encode()
               for part in parts)


def verdict_of_pyjwt(keys, token):
    """The subject, or None."""
    try:
        if not is_canonical(token):
            return None
        header = jwt.get_unverified_header(token)
        key = keys[header["kid"]]
        # PyJWT asks the machine for the time, so the times are checked here.
        claims = jwt.decode(token, key.public_key(), algorithms=[algorithm_of(key)], issuer=ISSUER, audience=AUDIENCE,
                            options={"require": ["exp", "sub", "iss", "aud"], "verify_exp": False, "verify_nbf": False,
                                     "verify_iat": False})
        if claims["exp"] <= NOW or claims.get("nbf", 0) > NOW + 60 or claims.get("iat", 0) > NOW + 60:
            return None
        return claims["sub"]
    except (jwt.PyJWTError, KeyError, ValueError):
        return None


def cases(rng):
    """Sets of keys by id, each with its tokens."""
    for size in (2048, 3072):
        keys = {"r": rsa.generate_private_key(65537, size), "e": ec.generate_private_key(ec.SECP256R1()),
                "f": ec.generate_private_key(ec.SECP256R1())}
        strangers = {"RS256": rsa.generate_private_key(65537, 2048), "ES256": ec.generate_private_key(ec.SECP256R1())}
        for count in range(1000):
            kid = rng.choice(list(keys))
            key = keys[kid]
            claims = {"iss": ISSUER, "aud": rng.choice([AUDIENCE, [AUDIENCE], ["x", AUDIENCE]]), "sub": f"subject-{count}",
                      "exp": NOW + rng.randint(1, 10**6), "iat": NOW - rng.randint(0, 100)}
            change = rng.choice(["none"] * 3 + ["claim", "missing", "stranger", "kid", "text", "cut"])
            if change == "claim":
                name, value = rng.choice([("iss", "https://issue"), ("aud", "x"), ("aud", ["x"]), ("exp", NOW), ("exp", NOW + 1),
                                          ("exp", NOW - 5), ("nbf", NOW + 60), ("nbf", NOW + 61), ("iat", NOW + 61),
                                          ("iat", NOW + 60), ("extra", {"a": [1, "ü"]})])
                claims[name] = value
            if change == "missing":
                del claims[rng.choice(["iss", "aud", "sub", "exp"])]
            signer = strangers[algorithm_of(key)] if change == "stranger" else key
            if change == "kid":
                kid = rng.choice(["r", "e", "f", "unknown"])
            token = jwt.encode(claims, signer, algorithm=algorithm_of(signer), headers={"kid": kid})
            if change == "text":
                at = rng.randrange(len(token))
                token = token[:at] + rng.choice(ALPHABET) + token[at + 1:]
            if change == "cut":
                token = token[:rng.randrange(len(token))]
            yield keys, token


def main():
    rng = random.Random(SEED)
    asked = [(keys, token) for keys, token in cases(rng) if token]
    sets = {}
    lines = []
    for keys, token in asked:
        text = sets.setdefault(id(keys), json.dumps({"keys": [jwk(*pair) for pair in keys.items()]}, separators=(",", ":")))
        lines.append(f"{text} {token}\n")
    out = subprocess.run([sys.argv[1]], input="".join(lines), capture_output=True, text=True, check=True).stdout.splitlines()
    assert len(out) == len(asked), (len(out), len(asked))
    accepted = 0
    failures = []
    for (keys, token), ours in zip(asked, out):
        theirs = verdict_of_pyjwt(keys, token)
        accepted += theirs is not None
        if ours != f"accepted {theirs}" and (theirs is not None or not ours.startswith("CREDENTIAL_")):
            failures.append(f"PyJWT {theirs}, ours {ours}: {token}")
    print(f"{len(asked)} tokens, {accepted} accepted by both, {len(failures)} disagreements")
    print("\n".join(failures[:10]))
    return 1 if failures or not len(asked) / 4 < accepted < len(asked) * 3 / 4 else 0


if __name__ == "__main__":
    sys.exit(main())
