# Starts Azurite. To be sourced by a script that has set `here`; `endpoint` is its endpoint then, and `environment` a directory for logs. It
# ends with the script. Needs node and npm.

azurite_program=$("$here/install")
environment=${azurite_program%/node_modules/*}

# Sets `endpoint` to the first match of a pattern in the log of a process, once it is there: await_endpoint NAME PID LOG PATTERN
await_endpoint() {
    endpoint=
    tries=0
    while [ -z "$endpoint" ]; do
        endpoint=$(sed -n "s/.*$4\(http:\/\/127.0.0.1:[1-9][0-9]*\).*/\1/p" "$3")
        tries=$((tries + 1))
        if [ $tries -gt 600 ] || ! kill -0 "$2" 2>/dev/null; then
            echo "compat/azurite: $1 does not start:" >&2
            cat "$3" >&2
            exit 1
        fi
        sleep 0.1
    done
}

azurite_log=$environment/azurite.log
# The log exists before it is read: the process in the background may open it later.
: >"$azurite_log"
# Port 0 is a free one. The newest protocol versions are not in Azurite's list, and are no different here.
"$azurite_program" \
    --blobHost 127.0.0.1 --blobPort 0 --inMemoryPersistence --silent --skipApiVersionCheck --disableTelemetry \
    >"$azurite_log" 2>&1 &
azurite=$!
trap 'kill $azurite 2>/dev/null || :' EXIT INT TERM
await_endpoint Azurite $azurite "$azurite_log" 'listen.* '
