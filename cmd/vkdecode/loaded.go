package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"vkdecode/model"
	"vkdecode/model/builtin"
	"vkdecode/model/gguf"
	"vkdecode/runtime"
	"vkdecode/vk"
)

// loaded is a model on an open device.
type loaded struct {
	instance *vk.Instance
	device   *vk.Device
	engine   *runtime.Engine
	model    *model.Model
}

// builtinName is what the model inside the program is called on the command line.
const builtinName = "builtin:"

// openFile opens a model file, or the one inside the program.
func openFile(path string) (*gguf.File, error) {
	if path == builtinName {
		return gguf.Parse(builtin.Model)
	}
	return gguf.Open(path)
}

// openModel opens the configured device and loads the model onto it. The file is checked first: a bad one is told
// without waiting for a device.
func openModel(c *configuration, path string, verbose int, stderr io.Writer) (l *loaded, err error) {
	file, err := openFile(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	l = &loaded{}
	defer func() {
		if err != nil {
			l.close()
		}
	}()
	if l.instance, err = vk.NewInstance(vk.Options{Validation: c.Device.Validation}); err != nil {
		return l, err
	}
	info, err := l.instance.Select(c.Device.Select)
	if err != nil {
		return l, err
	}
	if l.device, err = l.instance.Open(info); err != nil {
		return l, err
	}
	if err := usePipelineCache(l.device); err != nil && verbose > 0 {
		fmt.Fprintf(stderr, "note: %v\n", err)
	}
	l.engine = runtime.NewEngine(l.device)
	l.engine.Debug, _ = strconv.Atoi(os.Getenv("VKDECODE_DEBUG"))
	if verbose > 0 || l.engine.Debug >= 1 {
		fmt.Fprintf(stderr, "device %d: %s, %s; %v kernels, %d lanes\n", info.Index, info.Name, info.Driver, l.engine.Tuning.Form, l.engine.Tuning.Lanes)
	}
	bar := newProgress(stderr, "load", 0)
	l.model, err = model.Load(l.engine, file, bar.of)
	bar.done()
	return l, err
}

// usePipelineCache keeps compiled pipelines in the user's cache folder. Failing is no reason not to run.
func usePipelineCache(d *vk.Device) error {
	dir, err := os.UserCacheDir()
	if err != nil {
		return err
	}
	return d.UsePipelineCache(filepath.Join(dir, "vkdecode"))
}

func (l *loaded) close() {
	if l.model != nil {
		l.model.Close()
	}
	if l.device != nil {
		l.device.Close()
	}
	if l.instance != nil {
		l.instance.Close()
	}
}
