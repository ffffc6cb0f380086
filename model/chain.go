package model

import "vkdecode/runtime"

// chain is layers that follow each other, which one dispatch can go through for a step of one row (chain.comp): it reaches
// their weights as one tensor.
type chain struct {
	first   int
	links   [][]link        // by layer, what follows its attention
	weights *runtime.Tensor // planes and norms of all
}

// link is one product of a chain.
type link struct {
	*Matrix
	product
}

const (
	// patience is how often a workgroup looks whether another one has finished, before it does that one's work itself: each
	// look takes a tenth of a microsecond or two.
	patience = 2000

	// loopLimit is how many iterations an invocation may need at most: lavapipe ends its loops after 65,535. One that is left
	// alone needs iterations for all of the work and for all of its looks.
	loopLimit = 60_000
	workLimit = loopLimit / 4 * 3 // for the work of more than one layer
)

// tensors are the planes of a product and the weights of its norm.
func (l link) tensors() (all []*runtime.Tensor) {
	for _, s := range l.slices {
		all = append(all, s.weights)
		if s.scales != nil {
			all = append(all, s.scales)
		}
	}
	if l.norm != nil {
		all = append(all, l.norm.tensor)
	}
	return all
}

// iterations are what a layer asks of a workgroup that is left alone with it.
func iterations(links []link) (sum int) {
	const own, begun = 6, 10 // for each block of a row of its own; for every group, and once
	for _, l := range links {
		sum += l.slices[0].groups*(l.planes.steps+begun) + own*l.planes.steps + begun
	}
	return sum
}

// linkable tells whether one kernel can make these products, and those of another layer before them.
func linkable(links, before []link) bool {
	for _, l := range links {
		if l.weight.name != before[0].weight.name || l.planes.rows != before[0].planes.rows || l.bias != nil || len(l.slices) > 1 {
			return false
		}
	}
	return len(links) > 0 && iterations(links)+patience <= loopLimit
}

// attendable tells whether attention of so many iterations can be part of every layer.
func (m *Model) attendable(attention int) bool {
	for _, c := range m.chains {
		for _, links := range c.links {
			if iterations(links)+attention+patience > loopLimit {
				return false
			}
		}
	}
	return true
}

// within is how many layers from the i-th of the chain on a dispatch goes through, each with attention of so many
// iterations, and how often its workgroups may look.
func (c chain) within(i, attention int) (layers int, looks uint32) {
	work := 0
	for _, links := range c.links[i:] {
		one := iterations(links) + attention
		if layers > 0 && work+one > workLimit {
			break
		}
		layers, work = layers+1, work+one
	}
	return layers, uint32(loopLimit - work)
}

// linkedLayers are the chains of a model, nil if one of its layers cannot be in one. It puts the weights of every chain
// together.
func (w *weights) linkedLayers(arch architecture, layers int) (all []chain) {
	var tensors [][]*runtime.Tensor // by chain
	bytes, limits := int64(0), w.engine.Device.Info.Limits
	most := min(16*int64(limits.MaxTexelElements), limits.MaxAllocation)
	for i := range layers {
		links := arch.links(i, linkedRows{}, linkedRows{})
		if !linkable(links, links) {
			return nil
		}
		var own []*runtime.Tensor
		size := int64(0)
		for _, l := range links {
			for _, t := range l.tensors() {
				own, size = append(own, t), size+t.Bytes+runtime.PartAlign
			}
		}
		if size > most {
			return nil
		}
		if last := len(all) - 1; i > 0 && bytes+size <= most && linkable(links, all[last].links[0]) {
			all[last].links = append(all[last].links, links)
			tensors[last] = append(tensors[last], own...)
			bytes += size
			continue
		}
		all, tensors, bytes = append(all, chain{first: i, links: [][]link{links}}), append(tensors, own), size
	}
	for i := range all {
		all[i].weights = w.arena.Together("weights.linked."+all[i].links[0][0].name, tensors[i]...)
	}
	return all
}
