// Package drivers opens Vulkan devices for tests: both software drivers, or the one that VKDECODE_TEST_DEVICE selects.
package drivers

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"vkdecode/vk"
)

const (
	Lavapipe    = "lavapipe"
	SwiftShader = "swiftshader"
	Selected    = "selected" // the device that VKDECODE_TEST_DEVICE names, by the rules of vk.Instance.Select
)

const selection = "VKDECODE_TEST_DEVICE"

// Names lists the drivers that tests run on.
func Names() []string {
	if os.Getenv(selection) != "" {
		return []string{Selected}
	}
	return []string{Lavapipe, SwiftShader}
}

// Each runs f as one subtest per driver, on a device with validation that the whole process shares.
// A validation message fails the subtest. lavapipe runs workgroups one after the other there: what tests of whole models
// dispatch is so short that threads would be busy waking each other.
func Each(t *testing.T, f func(t *testing.T, d *vk.Device)) {
	t.Helper()
	each(t, f, alone, func(*testing.T) {})
}

// Together is Each for tests that take long: the drivers run side by side, once the test function has returned. f must not
// write what it shares with the other driver, nor measure the process.
func Together(t *testing.T, f func(t *testing.T, d *vk.Device)) {
	t.Helper()
	each(t, f, alone, (*testing.T).Parallel)
}

// TogetherInThreads is Together for tests of kernels, and of what depends on when workgroups run: beside each other, as in use.
func TogetherInThreads(t *testing.T, f func(t *testing.T, d *vk.Device)) {
	t.Helper()
	each(t, f, inThreads, (*testing.T).Parallel)
}

// threads are how many lavapipe has for workgroups, as LP_NUM_THREADS tells it.
type threads string

const (
	alone     threads = "0" // none but that which submits
	inThreads threads = ""  // one for each CPU
)

// First is the first driver's device, with validation, which the whole process shares: for what does not depend on the
// driver. A validation message fails the test.
func First(t *testing.T) *vk.Device {
	t.Helper()
	d := shared(t, Names()[0], alone)
	t.Cleanup(func() { failOnMessages(t, d.Instance()) })
	return d
}

func each(t *testing.T, f func(t *testing.T, d *vk.Device), how threads, begin func(*testing.T)) {
	t.Helper()
	for _, name := range Names() {
		t.Run(name, func(t *testing.T) {
			begin(t)
			d := shared(t, name, how)
			t.Cleanup(func() { failOnMessages(t, d.Instance()) })
			f(t, d)
		})
	}
}

// Open opens a device of its own, closed at the end of the test; with validation a message fails the test.
func Open(t testing.TB, driver string, validation bool) *vk.Device {
	t.Helper()
	in := Instance(t, driver, vk.Options{Validation: validation})
	d := open(t, in, driver)
	t.Cleanup(func() {
		d.Close()
		failOnMessages(t, in)
		in.Close()
	})
	return d
}

// Use makes the loader show one driver only until the end of the test, whoever makes an instance, and returns what
// selects its device.
func Use(t *testing.T, driver string) (sel string) {
	t.Helper()
	if driver == Selected {
		return os.Getenv(selection)
	}
	path := manifest(t, driver)
	t.Setenv("VK_DRIVER_FILES", path)
	t.Setenv("VK_ICD_FILENAMES", path) // loaders older than 1.3.207
	return "auto"
}

// MesaCache is where Mesa's drivers keep what they have compiled, as MESA_SHADER_CACHE_DIR has it: for tests that choose
// another folder for our own caches, but do not want shaders compiled again.
func MesaCache() string {
	if dir := os.Getenv("MESA_SHADER_CACHE_DIR"); dir != "" {
		return dir
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return os.TempDir()
	}
	return dir
}

// environment guards the variables that the loader reads when an instance is made.
var environment sync.Mutex

// Instance makes an instance that sees one driver only, to be closed by the caller.
func Instance(t testing.TB, driver string, o vk.Options) *vk.Instance {
	t.Helper()
	return instance(t, driver, o, inThreads)
}

func instance(t testing.TB, driver string, o vk.Options, how threads) *vk.Instance {
	t.Helper()
	environment.Lock()
	defer environment.Unlock()
	if how != inThreads {
		defer set("LP_NUM_THREADS", string(how))()
	}
	if driver != Selected {
		path := manifest(t, driver)
		defer set("VK_DRIVER_FILES", path)()
		defer set("VK_ICD_FILENAMES", path)() // loaders older than 1.3.207
	}
	in, err := vk.NewInstance(o)
	if err != nil {
		t.Fatal(err)
	}
	return in
}

var devices = struct {
	sync.Mutex
	open map[string]*vk.Device
}{open: map[string]*vk.Device{}}

func shared(t testing.TB, name string, how threads) *vk.Device {
	t.Helper()
	devices.Lock()
	defer devices.Unlock()
	key := name
	if name == Lavapipe {
		key += string(how)
	}
	d := devices.open[key]
	if d == nil {
		d = open(t, instance(t, name, vk.Options{Validation: true}, how), name)
		devices.open[key] = d
	}
	return d
}

func open(t testing.TB, in *vk.Instance, driver string) *vk.Device {
	t.Helper()
	sel := "auto"
	if driver == Selected {
		sel = os.Getenv(selection)
	}
	info, err := in.Select(sel)
	if err != nil {
		t.Fatal(err)
	}
	d, err := in.Open(info)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func failOnMessages(t testing.TB, in *vk.Instance) {
	t.Helper()
	for _, m := range in.Messages() {
		t.Errorf("validation: %s", m)
	}
}

// manifest finds the file that tells the loader where a driver is.
func manifest(t testing.TB, driver string) string {
	t.Helper()
	pattern, advice := "/usr/share/vulkan/icd.d/lvp_icd*.json", "apt-get install mesa-vulkan-drivers"
	if driver == SwiftShader {
		pattern, advice = filepath.Join(root(t), "swiftshader", "lib", "vk_swiftshader_icd.json"), "run swiftshader/fetch"
	}
	found, err := filepath.Glob(pattern)
	if err != nil || len(found) == 0 {
		t.Fatalf("no driver %s at %s; %s", driver, pattern, advice)
	}
	return found[0]
}

// root is the folder of the module that the test belongs to.
func root(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for dir != filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		dir = filepath.Dir(dir)
	}
	t.Fatal("no go.mod above the test")
	return ""
}

// set changes an environment variable and returns what restores it.
func set(name, value string) (restore func()) {
	old, had := os.LookupEnv(name)
	os.Setenv(name, value)
	return func() {
		if had {
			os.Setenv(name, old)
		} else {
			os.Unsetenv(name)
		}
	}
}
