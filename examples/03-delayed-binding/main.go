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

	"github.com/volsim/volsim/examples/notebook"
	"github.com/volsim/volsim/explore/session"
	"github.com/volsim/volsim/sim/trace/picture"
)

// ## A class that waits
//
// The class "patient" names the driver, and when the driver creates a disk. The claim names the
// class.
const patient = `
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata:
  name: patient
provisioner: array.csi.volsim.dev
volumeBindingMode: WaitForFirstConsumer
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata:
  name: data
spec:
  storageClassName: patient
  accessModes: [ReadWriteOnce]
  resources:
    requests:
      storage: 1Gi
`

var waiting = session.New("apply "+patient, "rest")

// The claim stays Pending although every component of the cluster works, and that is not an error.
// The controller explains it in an event, which `kubectl describe` would show.
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
// The pod names the claim, not the disk.
const web = `
apiVersion: v1
kind: Pod
metadata:
  name: web
spec:
  containers:
  - name: main
    image: pause
    volumeMounts:
    - name: data
      mountPath: /mnt/data
  volumes:
  - name: data
    persistentVolumeClaim:
      claimName: data
`

var placed = waiting.Then("apply "+web, "wait claim data Bound")

// Follow the chain. The **scheduler** picks a node and writes its name on the claim. The
// PersistentVolume controller sees that and asks the provisioner. The provisioner has the driver
// create a disk, and creates the volume object for it. The controller binds the two.
func chain() {
	s := placed.MustPlay()
	defer s.Close()
	fmt.Print(s.Last())
}

// ## The chain as a picture
//
// Three programs and a driver take part. Each program reacts to what the previous one wrote to the
// API server. Only the driver is called directly.
func drawn() {
	s := placed.MustPlay()
	defer s.Close()
	notebook.Show(picture.Sequence(s.Scene()))
}

// ## The pod runs
//
// Only now does the scheduler place the pod: that is the first line below. Bound does not mean usable
// yet. The rest of the way, attach and mount, is the topic of lesson 4.
var running = placed.Then("wait pod web Running")

func podRuns() {
	s := running.MustPlay()
	defer s.Close()
	fmt.Print(s.Last())
	s.Do("settle") // until all caches are up to date
	fmt.Print(s.StateTable())
}

// ## Immediate binding
//
// With the cluster's default class the disk is created at once, before it is known where it will be
// used. (`create claim data 1Gi` is short for a manifest like the one above, without a class.)
func immediate() {
	s := session.New("create claim data 1Gi", "rest").MustPlay()
	defer s.Close()
	fmt.Print(s.StateTable())
}

// ## A question
//
// The driver creates the disk, but its response is lost. The provisioner sees only an error, and
// the API has no volume yet. The provisioner tries again. Will there be two disks?
func question() {
	s := session.New("create claim data 1Gi", "fail driver-lost Unavailable CreateVolume", "rest").MustPlay()
	defer s.Close()
	notebook.Fold("What happens", s.Last())
	notebook.Fold("The number of disks", len(s.Cluster().DeviceState().Volumes()))
}

// <details><summary>Why?</summary>
//
// There is one disk. The second CreateVolume call uses the same name, derived from the claim's UID,
// and the driver already has that volume. So it returns the volume instead of creating another one.
//
// </details>
func answer() {}

func main() {
	claimWaits()
	chain()
	drawn()
	podRuns()
	immediate()
	question()
	answer()
}
