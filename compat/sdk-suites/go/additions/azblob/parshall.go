package testcommon

import "os"

// Endpoint is where the accounts are: their names follow it.
var Endpoint = "http://" + os.Getenv("PARSHALL_HOST") + ":10000/"
