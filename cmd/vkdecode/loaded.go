package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"vkdecode/h2o"
	"vkdecode/model"
	"vkdecode/model/builtin"
	"vkdecode/model/gguf"
	"vkdecode/runtime"
	"vkdecode/shaders"
	"vkdecode/vk"
)

// loaded is a model on an open device.
type loaded struct {
	instance *vk.Instance
	keeper   keeper
	device   *vk.Device
	engine   *runtime.Engine
	model    *model.Model
	tunings  []runtime.Tuning // that the device may be used with: doctor.Verdict.Tunings
	cached   bool             // compiled pipelines are kept on disk
}

// What models without a file are called on the command line: the one inside the program, and before the shape of one that
// bench makes up.
const (
	builtinName   = "builtin:"
	syntheticName = "synthetic:"
)

// syntheticNames are all models that bench can make up.
func syntheticNames() (names []string) {
	for _, w := range model.ShapeWords() {
		names = append(names, syntheticName+w)
	}
	return names
}

// openFile opens a model file, or the one inside the program.
func openFile(path string) (*gguf.File, error) {
	if strings.HasPrefix(path, syntheticName) {
		return nil, usagef("model %q has random weights, which only \"vkdecode bench\" makes; give a GGUF file or %s", path, builtinName)
	}
	if path == builtinName {
		return gguf.Parse(builtin.Model)
	}
	return gguf.Open(path)
}

// openModel opens the configured device and loads the model onto it. The file is checked first: a bad one is told
// without waiting for a device. It stops when ctx ends.
func openModel(ctx context.Context, c *configuration, path string, verbose int, stderr io.Writer) (_ *loaded, err error) {
	if _, err := debugLevel(os.Getenv("VKDECODE_DEBUG")); err != nil {
		return nil, err
	}
	file, err := openFile(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	l, err := openDevice(ctx, c, verbose, stderr)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.close())
		}
	}()
	if err := l.tune(file, verbose, stderr); err != nil {
		return nil, err
	}
	bar := newProgress(stderr, "load", 0)
	defer bar.done()
	l.model, err = model.Load(l.engine, file, func(done, total int64) error {
		bar.of(done, total)
		return ctx.Err()
	})
	if err == nil {
		bar.done()
		l.tell(stderr)
	}
	return l, err
}

// openDevice opens the configured device, once it is known to compute right.
func openDevice(ctx context.Context, c *configuration, verbose int, stderr io.Writer) (_ *loaded, err error) {
	debug, err := debugLevel(os.Getenv("VKDECODE_DEBUG"))
	if err != nil {
		return nil, err
	}
	go shaders.Fingerprint() // verdicts ask for it; meanwhile drivers are loaded
	l := &loaded{keeper: keeperOf(ctx, c)}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.close())
		}
	}()
	if l.instance, err = vk.NewInstance(vk.Options{Validation: c.Device.Validation}); err != nil {
		return nil, err
	}
	info, err := l.instance.Select(c.Device.Select)
	if err != nil {
		return nil, err
	}
	verdict, err := l.examine(ctx, c, info, verbose, stderr)
	if err != nil {
		return nil, err
	}
	if l.device, err = l.keeper.open(l.instance, info); err != nil {
		return nil, err
	}
	l.usePipelineCache(verbose, stderr)
	l.engine = runtime.NewEngine(l.device)
	l.engine.Debug, l.engine.OwnLayers = debug, c.Device.Layers
	l.tunings = verdict.Tunings(info)
	if how := c.Device.Precision; how != runtime.F32 {
		if l.tunings, err = verdict.Precise(l.tunings, info, how); err != nil {
			fmt.Fprintf(stderr, "note: --precision %s changes nothing: %v\n", how, err)
		}
	}
	l.engine.Tuning = l.tunings[0]
	if verbose > 0 || debug >= 1 {
		fmt.Fprintf(stderr, "device %d: %s, %s; %v kernels, %d lanes\n", info.Index, info.Name, info.Driver, l.engine.Tuning.Form, l.engine.Tuning.Lanes)
		for _, name := range verdict.Without() {
			fmt.Fprintf(stderr, "device %d: without %s, which vkdecode doctor found wrong\n", info.Index, name)
		}
	}
	return l, nil
}

// tell says where weights lie in the host's memory, and where a precision that was asked for is none of the model's.
func (l *loaded) tell(stderr io.Writer) {
	m := l.model
	if how := l.engine.Tuning.Precision(); how != m.Precision {
		fmt.Fprintf(stderr, "note: --precision %s changes nothing here: it is for weights of 2 to 6 bits, of which this model has none that are quicker so\n", how)
	}
	if layers := len(m.Layers); m.OwnLayers < layers {
		fmt.Fprintf(stderr, "note: the weights of %d of %d layers lie in the device's own memory, %s; those of the others, %s, are read from the host's over the bus, which is slower (--gpu-layers)\n",
			m.OwnLayers, layers, binarySize(m.OwnBytes()), binarySize(m.Bytes()-m.OwnBytes()))
	}
}

// debugLevel reads how much to tell of what the device does: 1 which it is, 2 the time of each kernel in the last step,
// 3 the recorded programs.
func debugLevel(text string) (int, error) {
	if text == "" {
		return 0, nil
	}
	level, err := strconv.Atoi(text)
	if err != nil || level < 0 || level > 3 {
		return 0, usagef("run: VKDECODE_DEBUG is %q, want 0 to 3", text)
	}
	return level, nil
}

// usePipelineCache keeps compiled pipelines in the user's cache folder. Failing is no reason not to run.
func (l *loaded) usePipelineCache(verbose int, stderr io.Writer) {
	folder, err := cacheFolder()
	if err == nil {
		err = l.device.UsePipelineCache(folder)
	}
	l.cached = err == nil
	noteError(err, verbose, stderr)
}

func (l *loaded) savePipelineCache(verbose int, stderr io.Writer) {
	if l.cached {
		noteError(l.device.SavePipelineCache(), verbose, stderr)
	}
}

func noteError(err error, verbose int, stderr io.Writer) {
	if err != nil && verbose > 0 {
		fmt.Fprintf(stderr, "note: %v\n", err)
	}
}

// noteLength says when a model is asked for more than it has learned.
func (l *loaded) noteLength(stderr io.Writer, tokens int) {
	if trained := l.model.Context; tokens > trained {
		fmt.Fprintf(stderr, "note: up to %d tokens, and the model was trained on %d at most\n", tokens, trained)
	}
}

// room adds to an error about the memory of a session what would fit.
func room(err error, plan *h2o.Plan, d *vk.Device) error {
	var full *vk.OutOfMemoryError
	switch {
	case !errors.As(err, &full) || plan.Capacity < 2:
		return err
	case strings.HasPrefix(full.Buffer, "rope."):
		return fmt.Errorf("%w; it holds the rotations of all %d tokens: lower -n", err, plan.Length)
	}
	var free int64 // bytes of the largest heap that nothing of ours takes
	for _, h := range d.Heaps() {
		size := h.Size
		if h.Budget >= 0 {
			size = min(size, h.Budget)
		}
		if h.DeviceLocal {
			free = max(free, size-d.Held())
		}
	}
	const share = 0.8 // of what is free: attention needs scratch beside the cache
	slots := int(share * float64(free) / (float64(plan.Bytes) / float64(plan.Capacity)))
	slots = min(slots, plan.Capacity-1)
	if slots <= plan.Chunk {
		return fmt.Errorf("%w; a lower --gpu-layers leaves more: beside the weights there are %s for the cache, too few for a chunk of %d: try --chunk %d", err, binarySize(free), plan.Chunk, max(1, slots/2))
	}
	return fmt.Errorf("%w; %s are planned for %d slots per KV head, about %d would fit: try --budget %d", err, binarySize(plan.Bytes), plan.Capacity, slots, slots-plan.Chunk)
}

// close frees everything. The error holds what the validation layer had to say.
func (l *loaded) close() error {
	if l.model != nil {
		l.model.Close()
	}
	if l.device != nil {
		l.keeper.close(l.device)
	}
	if l.instance == nil {
		return nil
	}
	messages := l.instance.Messages()
	l.instance.Close()
	if len(messages) > 0 {
		return fmt.Errorf("vk: %d validation messages:\n%s", len(messages), strings.Join(messages, "\n"))
	}
	return nil
}
