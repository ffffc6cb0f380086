package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"vkdecode/bench"
	"vkdecode/model"
	"vkdecode/model/gguf"
	"vkdecode/runtime"
	"vkdecode/vk"
)

// tune makes the engine launch the products of a file's matrices as was measured on the device, if anything was.
func (l *loaded) tune(file *gguf.File, verbose int, stderr io.Writer) error {
	info, m := l.device.Info, measuredOn(l.device.Info)
	if err := l.engine.Tune(m, l.tunings[0], l.tunings[1:], l.products(file)); err != nil {
		return err
	}
	if verbose == 0 && l.engine.Debug == 0 {
		return nil
	}
	if len(l.engine.Measured) == 0 {
		fmt.Fprintf(stderr, "device %d: launched as devices of its kind are; \"vkdecode bench MODEL --tune\" measures what is best\n", info.Index)
		return nil
	}
	fmt.Fprintf(stderr, "device %d: %s\n", info.Index, launched(l.engine))
	for _, one := range l.engine.Otherwise() {
		fmt.Fprintf(stderr, "device %d: %s\n", info.Index, one)
	}
	return nil
}

// products gives those of a file under a tuning.
func (l *loaded) products(file *gguf.File) func(runtime.Tuning) (map[runtime.Product]int, error) {
	return func(t runtime.Tuning) (map[runtime.Product]int, error) {
		return model.Products(&runtime.Engine{Device: l.device, Tuning: t}, file)
	}
}

// measuredOn is what was measured on a device before; nil for nothing.
func measuredOn(info vk.DeviceInfo) *runtime.Measured {
	folder, err := cacheFolder()
	if err != nil {
		return nil
	}
	return runtime.ReadMeasured(folder, info)
}

// tuningOf says how products are launched on a device.
func tuningOf(info vk.DeviceInfo) string {
	m := measuredOn(info)
	if m == nil {
		return "by kind"
	}
	return fmt.Sprintf("measured, %d products", m.Products())
}

// runTune is `bench MODEL --tune`: measure, keep, report.
func (f *benchFlags) runTune(cmd *cobra.Command, c *configuration, path string) (err error) {
	ctx, stdout, stderr := cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr()
	verbose, _ := cmd.Flags().GetCount("verbose")
	file, err := tunedFile(path)
	if err != nil {
		return err
	}
	defer file.Close()
	l, err := openDevice(ctx, c, verbose, stderr)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.close()) }()
	info := l.device.Info
	m := measuredOn(info)
	if m == nil {
		m = runtime.NewMeasured(info)
	}
	var tried []bench.Tried
	var lost error
	bar := newProgress(stderr, "tune", 0)
	defer bar.done()
	t := &bench.Tuner{Device: l.device, Tunings: l.tunings, Products: l.products(file),
		Emit: func(one bench.Tried) {
			tried = append(tried, one)
			if f.json && lost == nil {
				bar.clear()
				lost = printLine(stdout, tuneLine{"tuning", info.Name, info.Driver, one})
			}
		},
		Progress: func(p runtime.Product, done, ways int) {
			bar.describe("tune: " + p.String())
			bar.of(int64(done), int64(ways))
		}}
	if err := t.Run(ctx, m); err != nil {
		return err
	}
	folder, failed := cacheFolder()
	if failed == nil {
		failed = m.Save(folder, info)
	}
	bar.done()
	if failed != nil {
		fmt.Fprintf(stderr, "note: what was measured is not kept, and later runs do not know of it: %v\n", failed)
	}
	if f.json || lost != nil {
		return lost
	}
	if err := l.engine.Tune(m, l.tunings[0], l.tunings[1:], l.products(file)); err != nil {
		return err
	}
	fmt.Fprintf(stdout, "%s on %s, %s\n\n", path, info.Name, info.Driver)
	if err := tuneTable(tried).print(stdout, f.markdown); err != nil {
		return err
	}
	_, err = fmt.Fprintf(stdout, "\nlater runs: %s\n", launched(l.engine))
	return err
}

// launched says how many products an engine launches otherwise than by the table.
func launched(e *runtime.Engine) string {
	return fmt.Sprintf("%v kernels; of %d products that were measured %d are launched otherwise than on all devices of the kind", e.Tuning.Form, len(e.Measured), len(e.Otherwise()))
}

// tunedFile opens a model file or makes the outline of a synthetic one.
func tunedFile(path string) (*gguf.File, error) {
	name, made := strings.CutPrefix(path, syntheticName)
	if !made {
		return openFile(path)
	}
	shape, err := model.ParseShape(name)
	if err != nil {
		return nil, usageError{err}
	}
	return shape.Outline()
}

// tuneLine is a way as --json prints it.
type tuneLine struct {
	Kind   string `json:"kind"`
	Device string `json:"device"`
	Driver string `json:"driver"`
	bench.Tried
}

// tuneTable has a row for each way.
func tuneTable(tried []bench.Tried) *table {
	t := &table{left: 3, header: []string{"product", "kernels", "", "lanes", "along a row", "rows each", "us", "times the table's", "in prompts"}}
	for _, one := range tried {
		word := ""
		switch {
		case one.Wrong != "":
			word = "wrong"
			t.notes = append(t.notes, one.Wrong)
		case one.Won && one.Table:
			word = "won, table"
		case one.Won:
			word = "won"
		case one.Table:
			word = "table"
		}
		times := func(v float64) string {
			if v == 0 {
				return "-"
			}
			return fmt.Sprintf("%.2f", v)
		}
		t.add(one.Product.String(), one.Form, word, fmt.Sprint(one.Launch.Lanes), fmt.Sprint(one.Launch.Run), fmt.Sprint(one.Launch.Rows), fmt.Sprintf("%.1f", one.Micros), times(one.Ratio), times(one.Chunk))
	}
	return t
}
