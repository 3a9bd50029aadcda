# Installs Azurite from the npm registry into target/, in the versions of package-lock.json, the first time and whenever that file changes,
# and starts it. To be sourced by a script that has set `here` and `root`; `endpoint` is its endpoint then, and `environment` a directory
# for logs. It ends with the script. Needs node and npm.

environment=${CARGO_TARGET_DIR:-$root/target}/compat-azurite
mkdir -p "$environment"
# By its real name: npm takes a folder behind a link for a package to be linked to.
environment=$(cd "$environment" && pwd -P)
installed=$environment/node_modules/.installed-package-lock.json
log=$environment/azurite.log

if ! command -v npm >/dev/null; then
    echo "compat/azurite: node and npm are needed for the tests against Azurite" >&2
    exit 1
fi

if ! cmp -s "$here/package-lock.json" "$installed"; then
    cp "$here/package.json" "$here/package-lock.json" "$environment"
    npm ci --prefix "$environment" --ignore-scripts --no-audit --no-fund --loglevel=error
    cp "$here/package-lock.json" "$installed"
fi

# The log exists before it is read: the process in the background may open it later.
: >"$log"
# Port 0 is a free one. The newest protocol versions are not in Azurite's list, and are no different here.
"$environment/node_modules/.bin/azurite-blob" \
    --blobHost 127.0.0.1 --blobPort 0 --inMemoryPersistence --silent --skipApiVersionCheck --disableTelemetry \
    >"$log" 2>&1 &
azurite=$!
trap 'kill $azurite 2>/dev/null || :' EXIT INT TERM

endpoint=
tries=0
while [ -z "$endpoint" ]; do
    endpoint=$(sed -n 's/.*listen.* \(http:\/\/127.0.0.1:[1-9][0-9]*\).*/\1/p' "$log")
    tries=$((tries + 1))
    if [ $tries -gt 600 ] || ! kill -0 $azurite 2>/dev/null; then
        echo "compat/azurite: Azurite does not start:" >&2
        cat "$log" >&2
        exit 1
    fi
    sleep 0.1
done
