package explore

import (
	"cmp"
	"encoding/binary"
	"maps"
	"math"
	"slices"
)

// A historyGraph is the graph of the states of an exhaustive search, whose edges are labelled with what
// the history takes in on the way. Its paths are the orders that the search has run, and those that it did
// not run since they continue from a known state.
//
// Orders that the search leaves out have the history of one that it has: all writes to the API server
// and all driver calls depend on each other, and a request depends on the writes to what it finds. What can
// change places is a request that changes nothing with steps of other tasks, and the steps in which caches
// and queues take something in; see history. So the histories of all orders are those of the paths.
type historyGraph struct {
	nodes  map[uint64]int32 // by the number of the state
	edges  [][]graphEdge    // by node
	starts []int32

	labels  []graphLabel
	byText  map[string]int32 // label by its text
	taskIDs map[string]uint32
	tasks   []string

	// of the path that is followed
	at      int32
	current graphLabel
}

// A graphEdge leads to a node. It takes in what its label says.
type graphEdge struct{ to, label int32 }

// A graphLabel is a sequence of parts of histories.
type graphLabel []historyEntry

// A historyEntry is a request, a driver call or an event, as part of a history.
type historyEntry struct {
	task    uint32
	changes bool // it counts for the order of all changes
	what    uint64
}

// endNode is the node of the ends of all runs.
const endNode = 0

func newHistoryGraph() *historyGraph {
	return &historyGraph{nodes: map[uint64]int32{}, edges: make([][]graphEdge, 1), byText: map[string]int32{}, taskIDs: map[string]uint32{}}
}

// newNode adds a node.
func (g *historyGraph) newNode() int32 {
	g.edges = append(g.edges, nil)
	return int32(len(g.edges) - 1)
}

// start adds a node at which runs begin.
func (g *historyGraph) start() int32 {
	n := g.newNode()
	g.starts = append(g.starts, n)
	return n
}

// begin begins a path.
func (g *historyGraph) begin(node int32) { g.at, g.current = node, g.current[:0] }

// take adds an entry to the path.
func (g *historyGraph) take(task string, what uint64, changes bool) {
	g.current = append(g.current, historyEntry{g.taskID(task), changes, what})
}

func (g *historyGraph) taskID(task string) uint32 {
	id, known := g.taskIDs[task]
	if !known {
		id = uint32(len(g.tasks))
		g.taskIDs[task], g.tasks = id, append(g.tasks, task)
	}
	return id
}

// node returns the node of a state.
func (g *historyGraph) node(state uint64) int32 {
	n, known := g.nodes[state]
	if !known {
		n = g.newNode()
		g.nodes[state] = n
	}
	return n
}

// pass says that the path has come to a node. isNew adds the edge to it.
func (g *historyGraph) pass(node int32, isNew bool) {
	if isNew {
		g.edges[g.at] = append(g.edges[g.at], graphEdge{node, g.label(g.current)})
	}
	g.begin(node)
}

// label returns the number of a label.
func (g *historyGraph) label(entries graphLabel) int32 {
	text := make([]byte, 0, 13*len(entries))
	for _, e := range entries {
		kind := byte(0)
		if e.changes {
			kind = 1
		}
		text = binary.LittleEndian.AppendUint32(append(text, kind), e.task)
		text = binary.LittleEndian.AppendUint64(text, e.what)
	}
	n, known := g.byText[string(text)]
	if !known {
		n = int32(len(g.labels))
		g.labels = append(g.labels, slices.Clone(entries))
		g.byText[string(text)] = n
	}
	return n
}

// add adds the paths of another graph, of a search that has run other orders of the same world.
func (g *historyGraph) add(other *historyGraph) {
	mine := make([]int32, len(other.edges)) // by the node of the other graph
	for state, n := range other.nodes {     // in any order: the numbers of nodes decide nothing
		mine[n] = g.node(state)
	}
	for _, n := range other.starts {
		mine[n] = g.start()
	}
	labels := make([]int32, len(other.labels))
	for i, entries := range other.labels {
		entries = slices.Clone(entries)
		for j, e := range entries {
			entries[j].task = g.taskID(other.tasks[e.task])
		}
		labels[i] = g.label(entries)
	}
	for from, edges := range other.edges {
		for _, e := range edges {
			g.edges[mine[from]] = append(g.edges[mine[from]], graphEdge{mine[e.to], labels[e.label]})
		}
	}
}

// A place is a place in the graph: a node, or the first entries of an edge; and the entries of each task
// since its last change, by number.
type place struct {
	node    int32
	edge    int32 // of the node; -1: the node
	entry   int32 // of the edge's label, from which on it goes
	pending int32
}

// A historyCounter counts the histories of a graph. Several paths may have one history. So it follows
// sets of places: each set has all places to which the same changes lead, with the same entries of
// each task before each change. No history leads to two of them. This is the subset construction, depth first.
type historyCounter struct {
	*historyGraph
	pending [][]pendingEntries
	byText  map[string]int32
	counts  map[[2]uint64]setCount // by the hash of a set
	left    int                    // number of places that may still be followed
	more    bool                   // not all were followed
}

// A setCount is the number of histories from a set of places on.
type setCount struct {
	histories uint64
	done      bool
}

// pendingEntries is the hash of the entries of a task since its last change.
type pendingEntries struct {
	task uint32
	hash uint64
}

// historyPlacesMax bounds the work of counting: some seconds.
const historyPlacesMax = 20_000_000

// count returns the number of histories of all paths. If it would follow more than the given number of
// places, there are at least so many histories, and more is true.
func (g *historyGraph) count(placesMax int) (n uint64, more bool) {
	c := &historyCounter{historyGraph: g, byText: map[string]int32{}, counts: map[[2]uint64]setCount{}, left: placesMax}
	none := c.pendingNumber(nil)
	var starts []place
	for _, s := range g.starts {
		starts = append(starts, place{s, -1, 0, none})
	}
	n = c.countFrom(starts)
	return n, c.more
}

// countFrom returns the number of histories from a set of places on.
func (c *historyCounter) countFrom(set []place) uint64 {
	key := setKey(set)
	known, found := c.counts[key]
	if found && known.done {
		return known.histories
	}
	if found || c.left < 0 { // the set leads to itself, or the bound is reached
		c.more = true
		return 0
	}
	c.counts[key] = setCount{}
	ends, next := c.follow(set)
	n := uint64(len(ends))
	for _, letter := range slices.Sorted(maps.Keys(next)) {
		if from := c.countFrom(next[letter]); n <= math.MaxUint64-from {
			n += from
		} else {
			n, c.more = math.MaxUint64, true
		}
	}
	c.counts[key] = setCount{n, true}
	return n
}

// follow follows all paths from a set of places to their next change. It returns the histories that end without
// one, and by change the places after it.
func (c *historyCounter) follow(set []place) (ends map[int32]struct{}, next map[uint64][]place) {
	ends, next = map[int32]struct{}{}, map[uint64][]place{}
	seen := map[place]struct{}{}
	var todo []place
	visit := func(p place) {
		if _, known := seen[p]; !known {
			seen[p] = struct{}{}
			todo = append(todo, p)
		}
	}
	for _, p := range set {
		visit(p)
	}
	for len(todo) > 0 {
		p := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		c.left--
		switch {
		case p.edge >= 0:
			to, letter := c.along(p)
			if letter == 0 {
				visit(to)
			} else {
				next[letter] = append(next[letter], to)
			}
		case p.node == endNode:
			ends[p.pending] = struct{}{}
		default:
			for i := range c.edges[p.node] {
				visit(place{p.node, int32(i), 0, p.pending})
			}
		}
	}
	return ends, next
}

// along returns the place after the next change of an edge, with a number for the change; 0: it has none,
// and the place is that after the edge.
func (c *historyCounter) along(p place) (to place, letter uint64) {
	e := c.edges[p.node][p.edge]
	pending := p.pending
	for i, entry := range c.labels[e.label][p.entry:] {
		held := c.pending[pending]
		at, found := slices.BinarySearchFunc(held, entry.task, func(h pendingEntries, task uint32) int { return cmp.Compare(h.task, task) })
		hash := uint64(1)
		if found {
			hash = held[at].hash
		}
		hash = finish(hash*31 + entry.what)
		held = slices.Clone(held)
		switch {
		case entry.changes:
			if found {
				held = slices.Delete(held, at, at+1)
			}
			next := place{p.node, p.edge, p.entry + int32(i) + 1, c.pendingNumber(held)}
			if int(next.entry) == len(c.labels[e.label]) {
				next = place{e.to, -1, 0, next.pending}
			}
			return next, max(1, finish(hash*31+uint64(entry.task)+1))
		case found:
			held[at].hash = hash
		default:
			held = slices.Insert(held, at, pendingEntries{entry.task, hash})
		}
		pending = c.pendingNumber(held)
	}
	return place{e.to, -1, 0, pending}, 0
}

// pendingNumber numbers entries before a change.
func (c *historyCounter) pendingNumber(all []pendingEntries) int32 {
	text := make([]byte, 0, 12*len(all))
	for _, p := range all {
		text = binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint32(text, p.task), p.hash)
	}
	n, known := c.byText[string(text)]
	if !known {
		n = int32(len(c.pending))
		c.pending, c.byText[string(text)] = append(c.pending, all), n
	}
	return n
}

// setKey returns a hash of a set of places.
func setKey(set []place) [2]uint64 {
	slices.SortFunc(set, func(a, b place) int {
		return cmp.Or(cmp.Compare(a.node, b.node), cmp.Compare(a.edge, b.edge), cmp.Compare(a.entry, b.entry), cmp.Compare(a.pending, b.pending))
	})
	var key [2]uint64
	for i, p := range set {
		if i > 0 && p == set[i-1] {
			continue
		}
		n := finish(uint64(uint32(p.node))<<32 | uint64(uint32(p.edge)))
		n = finish(n*31 + uint64(uint32(p.entry))<<32 | uint64(uint32(p.pending)))
		key[0] += n
		key[1] = finish(key[1]*31 + n)
	}
	return key
}
