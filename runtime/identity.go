package runtime

import (
	"fmt"
	"path/filepath"

	"vkdecode/shaders"
	"vkdecode/vk"
)

// Identity is what a finding about a device holds for: another driver or other kernels ask for a new one.
type Identity struct {
	Kernels       string `json:"kernels"` // shaders.Fingerprint
	UUID          string `json:"uuid"`
	Device        string `json:"device"`
	Driver        string `json:"driver"`
	DriverVersion uint32 `json:"driver_version"`
}

// IdentityOf is that of a device with the kernels of this program.
func IdentityOf(info vk.DeviceInfo) Identity {
	return Identity{shaders.Fingerprint(), info.UUID, info.Name, info.Driver, info.DriverVersion}
}

// Path is where findings of a kind are kept in a folder.
func (i Identity) Path(folder, kind string) string {
	return filepath.Join(folder, fmt.Sprintf("%s-%s-%d-%s.json", kind, i.UUID, i.DriverVersion, i.Kernels))
}
