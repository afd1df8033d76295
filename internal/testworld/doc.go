// Package testworld is the common core of the test worlds with an API server: a host, the server and
// a client of the test.
//
//	w := testworld.New(t, sim.SteppedConfig{Chooser: chooser})
//	process := w.Host.Process("pvcprotection")
//	pvcprotection.New(pvcprotection.Config{Process: process, Client: w.Server.Client(process)})
//	testcheck.Must(w.User.CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{}))
//	w.Run()
//
// A test embeds a [World] in its own type and adds the components under test. [On] is a world on any
// host, and a [Runner] has a host without a server. Every method ends the test if it fails, and shows
// the trace where that helps.
//
// What it does not do: it starts no components and has no devices; see packages cluster and simtest.
// Worlds of devices have no API server; their tests use package testcheck alone.
package testworld
