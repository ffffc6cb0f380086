package main

import (
	"context"

	"vkdecode/vk"
)

// keeper opens devices for commands and takes them back. A process of many command lines, as that of the tests, need not
// close them in between: drivers compile slowly.
type keeper interface {
	open(in *vk.Instance, info vk.DeviceInfo) (*vk.Device, error)
	close(d *vk.Device)
}

type keeperKey struct{} // of a context's value

// keeperOf is the context's keeper, or one that keeps nothing: of devices with validation, whose messages are about what
// is left on them too.
func keeperOf(ctx context.Context, c *configuration) keeper {
	if k, ok := ctx.Value(keeperKey{}).(keeper); ok && !c.Device.Validation {
		return k
	}
	return closing{}
}

// closing is the keeper of a process of one command line.
type closing struct{}

func (closing) open(in *vk.Instance, info vk.DeviceInfo) (*vk.Device, error) { return in.Open(info) }
func (closing) close(d *vk.Device)                                           { d.Close() }
