package sim

// A Panic is a panic from which a task recovered.
type Panic struct {
	Task  string // "process/task"
	Value any
	Stack string
}

// Unwinding reports whether a recovered value is the panic that unwinds a task, because its process
// crashed or the host was closed. Code that recovers from panics must panic with it again.
func Unwinding(recovered any) bool {
	_, is := recovered.(unwound)
	return is
}
