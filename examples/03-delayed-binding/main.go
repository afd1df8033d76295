// # Lesson 3: who chooses the place
//
// A disk has a location: a zone, a rack, a single machine. If it is created as soon as a claim
// exists, it may end up where the pod cannot run. Therefore a **storage class** can say
// `volumeBindingMode: WaitForFirstConsumer`: wait for the first pod, let the scheduler choose its
// node, and create the disk there.
//
// What creates the disk? A **driver** is the program that knows the storage. Kubernetes talks to it
// through **CSI**, the Container Storage Interface. The driver in this lesson is
// array.csi.volsim.dev. Two helper programs, the **provisioner** and the **attacher**, watch the
// API server and call the driver. A volume created on demand is named pvc- plus the claim's UID. It
// is a volume all the same, not a claim.
package main

import (
	"fmt"

	"github.com/volsim/volsim/explore/session"
)

// ## A claim that waits
//
// The class "patient" waits. Its claim stays Pending although every component of the cluster works,
// and that is not an error. The controller explains it in an event, which `kubectl describe` would
// show.
var waiting = session.New(
	"create class patient binding=WaitForFirstConsumer",
	"create claim data 1Gi class=patient",
	"rest",
)

func claimWaits() {
	s := waiting.MustPlay()
	defer s.Close()
	fmt.Print(s.StateTable())
	for _, event := range s.Events() {
		fmt.Println(event)
	}
}

// ## A pod arrives
//
// Follow the chain. The **scheduler** picks a node and writes its name on the claim. The
// PersistentVolume controller sees that and asks the provisioner. The provisioner has the driver
// create a disk, and creates the volume object for it. The controller binds the two. Only then does
// the scheduler place the pod: that is the first step of the next cell.
//
// Three programs and a driver take part. Each program reacts to what the previous one wrote to the
// API server. Only the driver is called directly.
var placed = waiting.Then("create pod web data", "wait claim data Bound")

func chain() {
	s := placed.MustPlay()
	defer s.Close()
	fmt.Print(s.Last())
}

// ## The pod runs
//
// Bound does not mean usable yet. The rest of the way, attach and mount, is the topic of lesson 4.
var running = placed.Then("wait pod web Running")

func podRuns() {
	s := running.MustPlay()
	defer s.Close()
	fmt.Print(s.Last())
	fmt.Print(s.StateTable())
}

// ## Immediate binding
//
// With the cluster's default class the disk is created at once, before it is known where it will be
// used.
func immediate() {
	s := session.New("create claim data 1Gi", "rest").MustPlay()
	defer s.Close()
	fmt.Print(s.StateTable())
}

// ## A question
//
// The driver creates the disk, but its response is lost. The provisioner sees only an error, and
// the API has no volume yet. The provisioner tries again. Will there be two disks?
func answer() {
	s := session.New("create claim data 1Gi", "fail driver-lost Unavailable CreateVolume", "rest").MustPlay()
	defer s.Close()
	fmt.Print(s.Last())
	fmt.Print(s.StateTable())
	fmt.Println("One disk: the second CreateVolume call uses the same name, derived from the claim's UID, and the driver already has that volume.")
}

func main() {
	claimWaits()
	chain()
	podRuns()
	immediate()
	answer()
}
