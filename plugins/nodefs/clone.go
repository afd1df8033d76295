package nodefs

import "maps"

// Clone returns copies of t and of other trees as they are at one instant: no write to any of them
// is between two copies. Files share their content, which no write changes in place. A copy has no
// size of its own. Concurrent calls must name common trees in the same order.
func (t *Tree) Clone(others ...*Tree) []*Tree {
	all := append([]*Tree{t}, others...)
	for _, each := range all {
		each.mu.Lock()
		defer each.mu.Unlock()
	}
	clones := make([]*Tree, len(all))
	for i, each := range all {
		clones[i] = &Tree{root: each.root.clone(), pages: maps.Clone(each.pages)}
		clones[i].hasLinks.Store(each.hasLinks.Load())
	}
	return clones
}

// clone returns a copy of n and of everything below it.
func (n *node) clone() *node {
	made := *n
	made.children = maps.Clone(n.children)
	for name, child := range made.children {
		made.children[name] = child.clone()
	}
	return &made
}
