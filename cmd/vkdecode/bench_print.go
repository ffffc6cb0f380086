package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"

	"vkdecode/bench"
	"vkdecode/vk"
)

// benchReport is where the results of bench go.
type benchReport struct {
	*benchFlags
	stdout, stderr io.Writer
	older          *bench.Older // nil without --compare
	name           string       // of the model
	device         vk.DeviceInfo
	bandwidth      bench.Bandwidth
	results        []bench.Result
	matched        []*bench.Result // the older result of each, nil if there is none
}

func (r *benchReport) begin(info vk.DeviceInfo, name string, bandwidth bench.Bandwidth) {
	r.device, r.name, r.bandwidth = info, name, bandwidth
}

// take takes a result that is ready.
func (r *benchReport) take(result bench.Result, bar *progress) error {
	var old *bench.Result
	if r.older != nil {
		old = r.older.Compare(&result)
	}
	r.results, r.matched = append(r.results, result), append(r.matched, old)
	if !r.json {
		return nil
	}
	bar.clear()
	return printLine(r.stdout, result)
}

// print prints the tables, unless JSON was printed as it came, and what there is to say of the comparison.
func (r *benchReport) print() error {
	if len(r.results) == 0 {
		return nil
	}
	r.note()
	if r.json {
		return nil
	}
	fmt.Fprintf(r.stdout, "%s on %s%s; its memory: %.1f GB/s read, %.1f GB/s copied\n\n", r.name, r.device.Name, inPrecision(r.results[0].Precision), r.bandwidth.Read, r.bandwidth.Copy)
	if err := r.speeds().print(r.stdout, r.markdown); err != nil {
		return err
	}
	if r.results[0].Tokens == 0 {
		return nil
	}
	fmt.Fprint(r.stdout, "\nof a step\n\n")
	if err := r.steps().print(r.stdout, r.markdown); err != nil {
		return err
	}
	kernels := r.kernels()
	if kernels == nil {
		_, err := fmt.Fprint(r.stdout, "\nThe device has no timestamps: times of kernels are not told.\n")
		return err
	}
	fmt.Fprint(r.stdout, "\nms by kernel\n\n")
	return kernels.print(r.stdout, r.markdown)
}

// note says on standard error what a comparison leaves out.
func (r *benchReport) note() {
	if r.older == nil {
		return
	}
	missing, others := 0, ""
	for i, old := range r.matched {
		if old == nil {
			missing++
		} else if old.Device != r.results[i].Device {
			others = old.Device
		}
	}
	if missing > 0 {
		fmt.Fprintf(r.stderr, "note: %d of %d results have none of the same settings in %s\n", missing, len(r.results), r.compare)
	}
	if others != "" {
		fmt.Fprintf(r.stderr, "note: the results in %s are of another device: %s\n", r.compare, others)
	}
}

// speeds is the table of rates.
func (r *benchReport) speeds() *table {
	t := &table{left: 2, header: []string{"policy", "budget", "depth", "rows", "slots"}}
	column := func(wanted bool, names ...string) {
		if wanted {
			t.header = append(t.header, names...)
		}
	}
	prompts, decodes := r.Prompt > 0, r.Tokens > 0
	column(prompts, "prompt tok/s", "±", "vs full")
	column(prompts && r.older != nil, "vs older")
	column(decodes, "decode tok/s", "±", "vs full")
	column(decodes && r.older != nil, "vs older")
	column(decodes, "K and V")
	for _, one := range r.results {
		rows := "-"
		if one.Rows > 0 {
			rows = strconv.Itoa(one.Rows)
		}
		cells := []string{one.KV, one.Budget, strconv.Itoa(one.Depth), rows, strconv.Itoa(one.BudgetSlots)}
		if prompts {
			cells = append(cells, figure(one.PromptTPS, "%.1f"), half(one.PromptTPS, one.PromptLow, one.PromptHigh), figure(one.PromptVsFull, "%.2f"))
			if r.older != nil {
				cells = append(cells, figure(one.PromptRatio, "%.3f"))
			}
		}
		if decodes {
			cells = append(cells, figure(one.DecodeTPS, "%.1f"), half(one.DecodeTPS, one.DecodeLow, one.DecodeHigh), figure(one.DecodeVsFull, "%.2f"))
			if r.older != nil {
				cells = append(cells, figure(one.DecodeRatio, "%.3f"))
			}
			cells = append(cells, size(one.KVBytes))
		}
		t.add(cells...)
	}
	for _, one := range r.results {
		if !one.Complete {
			t.notes = append(t.notes, "Interrupted: not every measurement was repeated as often as was asked for.")
			break
		}
	}
	return t
}

// steps is the table of what a step of decoding asks of the device.
func (r *benchReport) steps() *table {
	t := &table{left: 2, header: []string{"policy", "budget", "depth", "rows", "ms", "reads", "GB/s", "of memory", "GFLOP/s", "scoring", "J/token"}}
	for _, one := range r.results {
		energy := "not told"
		if one.JoulesPerToken != nil {
			energy = figure(one.JoulesPerToken, "%.3g")
		}
		t.add(one.KV, one.Budget, strconv.Itoa(one.Depth), strconv.Itoa(one.Rows), figure(one.StepMS, "%.2f"), size(one.StepBytes), figure(one.GBPS, "%.2f"),
			percent(one.BandwidthShare), figure(one.GFLOPS, "%.1f"), percent(one.ScoreShare), energy)
	}
	return t
}

// kernels is the table of what each kernel takes; nil where no time is known.
func (r *benchReport) kernels() *table {
	t := &table{left: 2, header: []string{"policy", "budget", "depth", "rows"}}
	var names []string
	for _, one := range r.results {
		for _, k := range one.Kernels {
			if !slices.Contains(names, k.Name) {
				names = append(names, k.Name)
			}
		}
	}
	if len(names) == 0 {
		return nil
	}
	t.header = append(t.header, names...)
	for _, one := range r.results {
		row := []string{one.KV, one.Budget, strconv.Itoa(one.Depth), strconv.Itoa(one.Rows)}
		for _, name := range names {
			cell := "-"
			for _, k := range one.Kernels {
				if k.Name == name {
					cell = fmt.Sprintf("%.3f", k.MS)
				}
			}
			row = append(row, cell)
		}
		t.add(row...)
	}
	return t
}

// figure writes a number that may not be known.
func figure(v *float64, format string) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprintf(format, *v)
}

func percent(v *float64) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprintf("%.1f%%", 100**v)
}

func size(bytes *int64) string {
	if bytes == nil {
		return "-"
	}
	return binarySize(*bytes)
}

// half is half the distance from the slowest to the quickest measurement, in percent of their median; one alone has none.
func half(median, low, high *float64) string {
	if median == nil || *low == *high {
		return "-"
	}
	return fmt.Sprintf("%.1f%%", 50*(*high-*low) / *median)
}
