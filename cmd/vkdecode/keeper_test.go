package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"vkdecode/vk"
)

// keptOpen is the keeper of all command lines of this process: a device of each driver stays open, with all that was
// compiled on it. What a command leaves on it is found.
type keptOpen struct {
	sync.Mutex
	idle map[string]*vk.Device // by driver
	busy map[*vk.Device]string
	left []string // what was found since the last look
}

var devices = &keptOpen{idle: map[string]*vk.Device{}, busy: map[*vk.Device]string{}}

// inProcess is the test's context for command lines in this process.
func inProcess(t *testing.T) context.Context {
	t.Cleanup(func() {
		devices.Lock()
		defer devices.Unlock()
		for _, text := range devices.left {
			t.Errorf("a command leaves %s", text)
		}
		devices.left = nil
	})
	return context.WithValue(t.Context(), keeperKey{}, devices)
}

func (k *keptOpen) open(_ *vk.Instance, info vk.DeviceInfo) (*vk.Device, error) {
	k.Lock()
	defer k.Unlock()
	driver := strings.Join([]string{info.UUID, info.Name, os.Getenv("VK_DRIVER_FILES"), os.Getenv("VK_ICD_FILENAMES")}, "\n")
	d := k.idle[driver]
	if d == nil {
		in, err := vk.NewInstance(vk.Options{}) // the command closes its own
		if err != nil {
			return nil, err
		}
		if d, err = in.Open(info); err != nil {
			in.Close()
			return nil, err
		}
	}
	delete(k.idle, driver)
	k.busy[d] = driver
	return d, nil
}

func (k *keptOpen) close(d *vk.Device) {
	k.Lock()
	defer k.Unlock()
	driver := k.busy[d]
	delete(k.busy, d)
	left := d.Held() - d.HeldBy("staging.")
	if left == 0 && k.idle[driver] == nil && d.WaitIdle() == nil {
		k.idle[driver] = d
		return
	}
	if left != 0 {
		k.left = append(k.left, fmt.Sprintf("%d bytes on %s", left, d.Info.Name))
	}
	d.Close()
}
