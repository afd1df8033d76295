package sim

// A RecordingStrategy follows another strategy and records the deviations from the default order,
// as a Schedule for a ReplayStrategy. It is for one run.
type RecordingStrategy struct {
	Strategy Strategy
	Schedule Schedule
}

// Decide returns the move of the inner strategy.
func (n *RecordingStrategy) Decide(d *Decision) Move {
	move := n.Strategy.Decide(d)
	note := func(what, subject string) {
		n.Schedule = append(n.Schedule, Deviation{Step: d.Step(), What: what, Subject: subject})
	}
	switch {
	case move.Stop:
		return move
	case move.Event != "":
		note(DeviationEvent, move.Event)
		return move
	case move.Option > 0:
		note(DeviationPick, label(d, move.Option))
	}
	if move.Fault.Kind != "" {
		note(move.Fault.String(), label(d, move.Option))
	}
	return move
}
