package sim

// Panic is a panic that a strand recovered from.
type Panic struct {
	Task  string // the strand, "component/strand"
	Value any
	Stack string
}

// Unwinding tells whether a recovered value is the panic that carries a strand out of its work, because its component has
// crashed or the host is closed. Whoever recovers from panics must let this one go on.
func Unwinding(recovered any) bool {
	_, is := recovered.(unwound)
	return is
}
