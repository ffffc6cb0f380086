package tests

import (
	"fmt"
	"testing"

	"vkdecode/h2o"
	"vkdecode/tests/drivers"
	"vkdecode/vk"
)

// specs are every policy that evicts, and every option.
func specs() (all []string) {
	for _, p := range h2o.Policies {
		if p.Evicts {
			all = append(all, p.Name)
		}
	}
	return append(all,
		"h2o:score=guide", "h2o:score=layer", "h2o:score=max", "h2o:reduce=mean", "h2o:decay=0.9", "h2o:norm=lifetime", "h2o:admit=always",
		"h2o:grace=12", "h2o:every=5", "h2o:every=once", "h2o:score=max:decay=0.99:every=3", "h2o:score=layer:norm=lifetime:reduce=mean",
		"tova:protect_last=6", "tova:every=4", "random:seed=9", "window:every=7", "strided:every=2", "streaming:every=3")
}

// Every policy keeps what its rule says, by the scores read back from the device, and these are the twin's.
func TestPoliciesFollowTheirRules(t *testing.T) {
	drivers.Each(t, func(t *testing.T, d *vk.Device) {
		m, ids := builtinOn(t, d), passageIDs(t)[:260]
		if slow(d) {
			ids = ids[:110]
		}
		for _, spec := range specs() {
			for _, chunk := range []int{1, 32} {
				t.Run(fmt.Sprintf("%s, chunk %d", spec, chunk), func(t *testing.T) {
					h := watch(t, m, kv(spec, "48", 0.5, chunk), ids, false)
					t.Parallel() // the checks need no device
					if err := checkVictims(h); err != nil {
						t.Error(err)
					}
					if _, _, err := checkScores(newTwin(t, m.Config), h); err != nil {
						t.Error(err)
					}
				})
			}
		}
	})
}
