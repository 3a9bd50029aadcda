// Package gocloud requires the package whose own tests are run.
package gocloud

import _ "gocloud.dev/pubsub/azuresb"
