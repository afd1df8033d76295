// Package sim gives a world its time, its order and its chance.
//
// Everything that runs is an [Task]: a strand of one [Process] (a process of the control plane: the PersistentVolume
// controller, the kubelet of one node), which is either ready or not, and when moved does one piece of work. A component
// is a monitor: of its strands, one runs at a time, and another can only come in between where the running one leaves the
// component: at a [Process.Call] (an API request, a driver call) or a [Process.Sleep]. Components share no memory;
// they meet in the API server and in the devices.
//
// A host moves the actors. [Live] gives each a goroutine on the real clock and wakes it when it may have become ready;
// nothing polls. [Stepped] runs them one at a time, as coroutines on one goroutine and a virtual clock: at every step it
// lists what could happen, in the ordinary order (deliveries, work in flight, the worker that waited longest, users), and
// asks a [Chooser] which; choice 0 is the ordinary course. A [Strategy] sees what it chooses among, lets calls go wrong
// ([Fault]) and things befall the world ([Event]); what it did is a [Schedule], in words, which a [ReplayStrategy] repeats. The monitor rule makes the two hosts agree: what cannot be
// interrupted in one cannot be in the other. Under Stepped nothing else is chance, so the same choices give the same
// [trace.Log], byte for byte.
//
// Rules for code that runs here: state of a component is touched by its own strands only; no goroutines, no wall clock,
// no math/rand, no decision by map order; what makes an actor ready is either state of its own component or announced by
// [Process.Wake].
//
// Not here: parallelism inside a component (a component is one monitor, also live), and preemption between suspension
// points.
package sim
