// Package gocloud requires the packages whose own tests are run.
package gocloud

import (
	_ "gocloud.dev/blob/azureblob"
	_ "gocloud.dev/pubsub/azuresb"
)
