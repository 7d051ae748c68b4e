// Package sinktest tests emit/httpsink and emit/faultsink against the CloudEvents SDK: the core requires no other module.
package sinktest
