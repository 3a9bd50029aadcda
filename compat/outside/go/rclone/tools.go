// Package rclone requires the packages whose own tests are run.
package rclone

import _ "github.com/rclone/rclone/backend/azureblob"
