// Package sim is a deterministic scheduler: it controls the clock, the order of events and every
// other source of nondeterminism in a simulated control plane.
//
//	host := sim.NewStepped(sim.SteppedConfig{Chooser: sim.NewSeeded(1)})
//	defer host.Close()
//	process := host.Process("counter")
//	process.Spawn("once", func(context.Context) { process.Sleep(time.Second) })
//	err := host.Run() // until nothing is left to do; host.Log() is the trace
//
// A [Process] is one program of the simulated control plane, such as the PersistentVolume
// controller or the kubelet of one node. A [Task] is a unit of execution inside a process: a
// worker, a delivery, an operation, a user script or a timer. A process is a monitor: one of its
// tasks runs at a time. Another task of the same process runs only where the running one suspends:
// at a [Process.Call] (an API request or a driver call), a [Process.Sleep] or a [Process.Wait].
// Processes share no memory. They communicate through the API server and the devices.
//
// A host runs the tasks. [Live] gives each task a goroutine on the real clock and wakes it when it
// may have become ready; it does not poll. [Stepped] runs one task at a time, as a coroutine on one
// goroutine and a virtual clock. At every step it lists the tasks that can run, in the default
// order: deliveries, tasks in flight, the worker that ran longest ago, users. A [Chooser] picks
// one; choice 0 follows the default order. A [Strategy] also sees the alternatives, injects faults
// into calls ([Fault]) and injects events such as a crash ([Event]). Its decisions are a
// [Schedule], which is text, and a [ReplayStrategy] repeats it.
//
// The monitor rule makes the two hosts agree: code that cannot be interrupted under one cannot be
// interrupted under the other. Stepped has no other source of nondeterminism. The same choices
// therefore produce the same [trace.Log], byte for byte.
//
// # Rules for code that runs under a host
//
// Only the tasks of a process touch its state. They start no goroutines and do not use the wall
// clock, math/rand or the order of a map. Stepped refuses the calls of other goroutines and ends the
// run with an error; see [Stepped.Err]. So it does when it notices that a goroutine outlives the work
// of the task that started it. Under Live, the calls of goroutines that a task starts run
// concurrently with it. The readiness of a task depends on state of its own
// process or is announced with [Process.Wake].
//
// # What it does not do
//
// A process has no parallelism inside, even under Live. Tasks are not preempted between suspension
// points.
package sim
