# For `. deploy/tls/environment.sh FOLDER` (bash): schedulers, workers and clients started from this shell use TLS with the
# certificates in FOLDER, and refuse connections without it.
VMFA_TLS=$(cd "${1:?"usage: . environment.sh FOLDER"}" && pwd)
export DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION=true
export DASK_DISTRIBUTED__COMM__TLS__CA_FILE=$VMFA_TLS/ca.pem
for role in SCHEDULER WORKER CLIENT; do
    export "DASK_DISTRIBUTED__COMM__TLS__${role}__CERT=$VMFA_TLS/cert.pem"
    export "DASK_DISTRIBUTED__COMM__TLS__${role}__KEY=$VMFA_TLS/key.pem"
done
unset role VMFA_TLS
