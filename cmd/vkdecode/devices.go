package main

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"vkdecode/vk"
)

func newDevices() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "devices",
		Short: "list every Vulkan device, whether it can be used, and if not, why",
		Long: `List every device of every Vulkan driver, whether it can be used, and if not, why.
A star marks the one that --device (or the configuration) chooses. Layers that do not
fit into a device's own memory are read from the host's (--gpu-layers).`,
		Example: `  vkdecode devices
  vkdecode devices --device llvmpipe --json`,
		Args: cobra.NoArgs,
	}
	bindSettings(cmd, "device.select", "device.validation")
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := loadConfig(cmd)
		if err != nil {
			return err
		}
		instance, err := vk.NewInstance(vk.Options{Validation: c.Device.Validation})
		if err != nil {
			return err
		}
		defer instance.Close()
		report := deviceReport{Select: c.Device.Select}
		for _, info := range instance.Devices() {
			report.Devices = append(report.Devices, listedDevice{info, tuningOf(info)})
		}
		chosen, choice := instance.Select(c.Device.Select)
		if choice == nil {
			report.Selected = &chosen.Index
		}
		if *asJSON {
			err = printJSON(cmd.OutOrStdout(), report)
		} else {
			err = report.print(cmd.OutOrStdout())
		}
		if choice != nil {
			return choice
		}
		return err
	}
	return cmd
}

// deviceReport is the list of devices in JSON.
type deviceReport struct {
	Select   string         `json:"select"`
	Selected *int           `json:"selected"` // index, null when the choice fails
	Devices  []listedDevice `json:"devices"`
}

type listedDevice struct {
	vk.DeviceInfo
	Tuning string `json:"tuning"` // how products are launched
}

func (r deviceReport) print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "\tindex\tname\tkind\tVulkan\tmemory\thost memory\tdriver\tuuid\ttuning\tusable")
	for _, d := range r.Devices {
		star, usable := "", "yes"
		if r.Selected != nil && d.Index == *r.Selected {
			star = "*"
		}
		if d.Rejected != "" {
			usable = "no: " + d.Rejected
		}
		fmt.Fprintf(t, "%s\t%d\t%s\t%s\t%d.%d\t%s\t%s\t%s\t%s\t%s\t%s\n", star, d.Index, d.Name, d.Kind,
			d.APIVersion>>22&0x7f, d.APIVersion>>12&0x3ff, memory(d.DeviceInfo, true), memory(d.DeviceInfo, false), d.Driver, d.UUID, d.Tuning, usable)
	}
	return t.Flush()
}

// memory is the size of the device's own heaps, or of those of the host that it can read.
func memory(d vk.DeviceInfo, own bool) string {
	bytes := int64(0)
	for _, h := range d.Heaps {
		if h.DeviceLocal == own {
			bytes += h.Size
		}
	}
	if bytes == 0 {
		return "-"
	}
	return binarySize(bytes)
}
