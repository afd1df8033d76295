package picture

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/volsim/volsim/sim/trace"
)

// server is the lane of the API server.
const server = "API server"

// driverName returns the lane of a driver: "array.csi.volsim.dev" for a call of
// "array.csi.volsim.dev/vol-1".
func driverName(r *trace.Record) string {
	name, _, _ := strings.Cut(r.Object, "/")
	return name
}

// driver is the lane of a driver if there is only one.
const driver = "driver"

// rankDriver is the rank of a driver's lane, the rightmost.
const rankDriver = 4

// rank orders lanes from left to right: users, the API server, controllers, kubelets, drivers.
func rank(name string, user, driver bool) int {
	switch {
	case user:
		return 0
	case name == server:
		return 1
	case driver:
		return rankDriver
	case strings.HasPrefix(name, "kubelet("):
		return 3
	default:
		return 2
	}
}

// lanesOf returns the lanes of the events, from left to right, and those of earlier events that are
// not drawn. Lanes of one rank are in the order in which they first acted in the whole run, so a
// picture of a later part has them in the same order.
func (s *scene) lanesOf(happened []sceneEvent) []string {
	s.nameDrivers(happened)
	names, ranks := []string{server}, map[string]int{server: rank(server, false, false)}
	enter := func(name string, rank int) {
		if _, has := ranks[name]; !has {
			names = append(names, name)
			ranks[name] = rank
		}
	}
	for _, h := range happened {
		switch h.kind {
		case wrote, refused:
			enter(h.lane, rank(h.lane, !strings.Contains(h.record.Task, "/"), false))
		case called:
			enter(h.lane, rank(h.lane, false, false))
			enter(h.callee, rank("", false, true))
		}
	}
	for name, rank := range s.earlier {
		enter(name, rank)
	}
	slices.SortStableFunc(names, func(a, b string) int {
		return cmp.Or(ranks[a]-ranks[b], s.firstActed(a)-s.firstActed(b), strings.Compare(a, b))
	})
	return names
}

// firstActed returns the place of a lane in the order of the first actions.
func (s *scene) firstActed(lane string) int {
	if at, acted := s.acted[lane]; acted {
		return at
	}
	return len(s.acted)
}

// noteLanes records the lanes of an action that a picture of the whole run shows. stays means that
// they stay in a picture of the end of the run.
func (s *scene) noteLanes(r *trace.Record, stays bool) {
	isCall := r.Kind == trace.KindDriver
	if !isCall && (r.Kind != trace.KindAPI || r.After == nil && (r.Err == nil || r.Lost)) {
		return
	}
	lane := s.lane(r.Task)
	ranks := map[string]int{lane: rank(lane, !isCall && !strings.Contains(r.Task, "/"), false)}
	lanes := []string{lane}
	if isCall {
		ranks[driverName(r)] = rankDriver
		lanes = append(lanes, driverName(r))
	}
	isKnown := func(lane string) bool {
		_, acted := s.acted[lane]
		_, earlier := s.earlier[lane]
		return acted && (earlier || !stays)
	}
	lanes = slices.DeleteFunc(lanes, isKnown)
	if len(lanes) == 0 || !s.related.Matches(r) {
		return
	}
	if _, tells := s.describe(r); !tells {
		return
	}
	for _, lane := range lanes {
		if _, acted := s.acted[lane]; !acted {
			s.acted[lane] = len(s.acted)
		}
		if stays {
			s.earlier[lane] = ranks[lane]
		}
	}
}

// nameDrivers sets the driver's lane of each call.
func (s *scene) nameDrivers(happened []sceneEvent) {
	names := map[string]bool{}
	for i := range happened {
		if h := &happened[i]; h.kind == called {
			h.callee = driverName(h.record)
			names[h.callee] = true
		}
	}
	for lane, rank := range s.earlier {
		if rank == rankDriver {
			names[lane] = true
		}
	}
	if len(names) != 1 {
		return
	}
	for i := range happened {
		if h := &happened[i]; h.kind == called {
			h.callee = driver
		}
	}
	for name := range names {
		if rank, stays := s.earlier[name]; stays {
			delete(s.earlier, name)
			s.earlier[driver] = rank
		}
	}
}

// rowsMax is the maximum number of rows of a picture. The middle of a longer picture is omitted.
const rowsMax = 160

// headRows is the number of rows after which a picture repeats the names of its lanes.
const headRows = 20

// repeatsHeads reports whether the names of the lanes are repeated before a row of a picture: after
// each headRows rows, unless the end is near.
func repeatsHeads(row, rows int) bool {
	return row > 0 && row%headRows == 0 && rows-row > headRows/4
}

// elideMiddle omits the middle of a picture that is too long.
func elideMiddle(all []sceneEvent) []sceneEvent {
	rows := 0
	for i := range all {
		if all[i].hasRow() {
			rows++
		}
	}
	if rows <= rowsMax {
		return all
	}
	const head, tail = rowsMax / 3, rowsMax - rowsMax/3 - 1 // rows that are kept; one more counts the omitted ones
	first, last, seen := 0, len(all), 0
	for i := range all {
		if !all[i].hasRow() {
			continue
		}
		seen++
		switch seen {
		case head:
			first = i + 1
		case rows - tail + 1:
			last = i
		}
	}
	left := sceneEvent{kind: folded, words: fmt.Sprintf("… %d rows omitted", rows-head-tail)}
	return slices.Concat(all[:first], []sceneEvent{left}, all[last:])
}

// hasRow reports whether a picture has a row for the event.
func (h *sceneEvent) hasRow() bool { return h.kind != delivered && h.kind != restarted }

// foldMax is the maximum period of a repetition, in rows.
const foldMax = 12

// fold replaces events that repeat more than twice by a count.
func fold(all []sceneEvent) []sceneEvent {
	var rows []int // indexes of the events with a row
	for i := range all {
		if all[i].hasRow() {
			rows = append(rows, i)
		}
	}
	same := func(a, b int) bool {
		x, y := &all[rows[a]], &all[rows[b]]
		return x.kind == y.kind && x.lane == y.lane && x.words == y.words && !x.violation && !y.violation
	}
	var folds []sceneEvent
	next := 0 // index in all of the first event that is not in folds yet
	for at := 0; at < len(rows); at++ {
		period, rounds := repetition(at, len(rows), same)
		if rounds < 3 {
			continue
		}
		first, last := at+period, at+period*rounds-1
		folds = append(folds, all[next:rows[first]]...)
		folds = append(folds, sceneEvent{kind: folded, words: repeated(period, rounds-1)})
		next = rows[last] + 1
		at = last
	}
	return append(folds, all[next:]...)
}

// repetition returns the shortest period with which the events from a row on repeat at least three
// times, and the number of rounds.
func repetition(at, end int, same func(a, b int) bool) (period, rounds int) {
	for period = 1; period <= foldMax && at+2*period <= end; period++ {
		n := at + period
		for n < end && same(n, n-period) {
			n++
		}
		if rounds = (n - at) / period; rounds >= 3 {
			return period, rounds
		}
	}
	return 0, 1
}
