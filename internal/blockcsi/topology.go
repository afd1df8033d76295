package blockcsi

import (
	"slices"

	"github.com/container-storage-interface/spec/lib/go/csi"
)

// topology returns where the volumes of a pool can be used; nil means everywhere.
func (d *Driver) topology(pool PoolInfo) []*csi.Topology {
	if pool.Node() == "" {
		return nil
	}
	return []*csi.Topology{d.segment(pool.Node())}
}

// segment returns the topology of a node, or nil without topology.
func (d *Driver) segment(node string) *csi.Topology {
	if d.cfg.TopologyKey == "" {
		return nil
	}
	return &csi.Topology{Segments: map[string]string{d.cfg.TopologyKey: node}}
}

// accessible returns the pools that match a term of the requirement. Preferred terms come first,
// otherwise the driver's order applies.
func (d *Driver) accessible(requirement *csi.TopologyRequirement) []Pool {
	terms := slices.Concat(requirement.GetPreferred(), requirement.GetRequisite())
	if len(terms) == 0 || d.cfg.TopologyKey == "" {
		return d.cfg.Pools
	}
	var pools []Pool
	for _, term := range terms {
		for _, pool := range d.cfg.Pools {
			if d.matchesTopology(pool, term) && !slices.Contains(pools, pool) {
				pools = append(pools, pool)
			}
		}
	}
	return pools
}

// matchesTopology reports whether a node in a topology can use a pool's volumes.
func (d *Driver) matchesTopology(pool PoolInfo, term *csi.Topology) bool {
	return pool.Node() == "" || term.GetSegments()[d.cfg.TopologyKey] == pool.Node()
}
