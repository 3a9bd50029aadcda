package testcommon

import "os"

// Endpoint is where the accounts are: their names follow it.
var Endpoint = "https://" + os.Getenv("PARSHALL_HOST") + ":10443/"
