#!/bin/sh
# Make an authority and a certificate signed by it, for all processes of one cluster:
#
#     sh deploy/tls/make_certificates.sh FOLDER [DAYS]
#
# FOLDER gets ca.pem, cert.pem and key.pem. Whoever holds these files may connect, and so run code on the workers: keep
# them as you keep passwords. The key of the authority is not kept; to replace certificates, make new ones for all.
set -eu

if [ "$#" -lt 1 ] || [ "$#" -gt 2 ]; then
    echo "usage: sh make_certificates.sh FOLDER [DAYS]" >&2
    exit 2
fi
folder=$1
days=${2:-365}

umask 077
mkdir -p "$folder"
if [ -e "$folder/key.pem" ]; then
    echo "$folder/key.pem exists; choose another folder, or remove it first" >&2
    exit 1
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -sha256 -days "$days" \
    -subj "/CN=vmfa-dask authority" -addext "keyUsage=critical,keyCertSign,cRLSign" \
    -keyout "$work/ca.key" -out "$work/ca.pem" 2>"$work/log" || { cat "$work/log" >&2; exit 1; }
openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -sha256 -subj "/CN=vmfa-dask" \
    -keyout "$work/key.pem" -out "$work/request.pem" 2>"$work/log" || { cat "$work/log" >&2; exit 1; }
printf 'basicConstraints=CA:FALSE\nkeyUsage=digitalSignature\nextendedKeyUsage=serverAuth,clientAuth\n' >"$work/extensions"
openssl x509 -req -in "$work/request.pem" -CA "$work/ca.pem" -CAkey "$work/ca.key" -CAcreateserial -sha256 \
    -days "$days" -extfile "$work/extensions" -out "$work/cert.pem" 2>"$work/log" || { cat "$work/log" >&2; exit 1; }
mv "$work/ca.pem" "$work/cert.pem" "$work/key.pem" "$folder"
