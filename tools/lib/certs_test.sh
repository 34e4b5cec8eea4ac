#!/usr/bin/env bash
# tools/dev certs: what it makes, keeps, renews and refuses.
set -euo pipefail

certs="$(dirname "$0")/certs"
folder="$TEST_TMPDIR/certs"
failed=0
fail() { echo "FAILED: $*"; failed=1; }
equal() { [ "$1" = "$2" ] || fail "expected '$2', got '$1'"; }
serial() { openssl x509 -in "$folder/$1.pem" -noout -serial; }
names() { openssl x509 -in "$1" -noout -ext subjectAltName | sed -n '2s/^ *//p'; }
key_of() { openssl pkey -in "$folder/$1.key" -pubout; }
key_in() { openssl x509 -in "$folder/$1.pem" -noout -pubkey; }

"$certs" "$folder"
for name in tls client; do
  openssl verify -CAfile "$folder/ca.pem" -purpose sslclient "$folder/$name.pem" || fail "verify $name as a client"
  equal "$(key_of "$name")" "$(key_in "$name")"
  equal "$(stat -c %a "$folder/$name.key")" 600
done
openssl verify -CAfile "$folder/ca.pem" -purpose sslserver -verify_hostname localhost "$folder/tls.pem" || fail "verify tls"
openssl verify -CAfile "$folder/ca.pem" -verify_ip ::1 "$folder/tls.pem" || fail "verify ::1"
equal "$(stat -c %a "$folder/ca.key")" 600
equal "$(names "$folder/tls.pem")" \
  "DNS:localhost, IP Address:127.0.0.1, IP Address:0:0:0:0:0:0:0:1, DNS:escapement-service"
equal "$(names "$folder/client.pem")" DNS:operator
equal "$(find "$folder" -type f | wc -l)" 6

# A second run keeps everything.
before="$(cat "$folder"/*)"
"$certs" "$folder"
equal "$(cat "$folder"/*)" "$before"

# Another name for the client is refused, and nothing changes.
! "$certs" "$folder" URI:spiffe://c/jobs || fail "took another name for the client"
! "$certs" "$folder" operator || fail "took a name without its kind"
equal "$(cat "$folder"/*)" "$before"

# A certificate near its end is renewed by the same authority; the other one stays.
openssl req -new -key "$folder/tls.key" -subj /CN=old -out "$TEST_TMPDIR/old.csr"
openssl x509 -req -in "$TEST_TMPDIR/old.csr" -CA "$folder/ca.pem" -CAkey "$folder/ca.key" -set_serial 7 -days 29 \
  -out "$folder/tls.pem"
client="$(serial client)"
authority="$(cat "$folder/ca.pem")"
"$certs" "$folder"
[ "$(serial tls)" != serial=07 ] || fail "tls.pem is not renewed"
openssl verify -CAfile "$folder/ca.pem" "$folder/tls.pem" || fail "verify the renewed one"
equal "$(key_of tls)" "$(key_in tls)"
equal "$(serial client)" "$client"
equal "$(cat "$folder/ca.pem")" "$authority"

# Without its key an authority is useless; it is not replaced.
rm "$folder/ca.key"
! "$certs" "$folder" || fail "worked without the authority's key"
equal "$(cat "$folder/ca.pem")" "$authority"

"$certs" "$TEST_TMPDIR/other" IP:10.0.0.1
equal "$(names "$TEST_TMPDIR/other/client.pem")" "IP Address:10.0.0.1"
"$certs" "$TEST_TMPDIR/other" IP:10.0.0.1
exit "$failed"
