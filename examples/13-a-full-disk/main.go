// # Lesson 13: a full disk, and what the scheduler did not know
//
// In lesson 12 an administrator cut the disks into volumes before anyone asked. Now the volumes are
// made on demand: each node has a disk, and a claim gets a piece of it, of the size that it requests.
//
// So there is a new question: how much is left? The scheduler has to know that before it sends a pod
// to a node. It cannot look at the disk. It reads a **report**. This lesson is about a report that is
// out of date, and about the program that must then put things right.
package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/volsim/volsim/examples/notebook"
	"github.com/volsim/volsim/explore/session"
	"github.com/volsim/volsim/fake"
	_ "github.com/volsim/volsim/fake/crd" // for the records
	"github.com/volsim/volsim/sim/trace"
	"github.com/volsim/volsim/sim/trace/picture"
)

// ## A class that names disks
//
// Node-1 gets an empty disk of 64 MiB, node-2 one of 128 MiB. The class says which disks it may use, as JSON. On each
// node a program, the **manager**, makes a volume group of its disks. (Lesson 8 explains volume
// groups.) "binpack" means: fill one node before the next.
const class = `
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata:
  name: fast
provisioner: localstorage.volsim.dev
volumeBindingMode: WaitForFirstConsumer
parameters:
  strategy: binpack
  nodes: |
    [{"node": "node-1", "disks": ["/dev/sdb"]},
     {"node": "node-2", "disks": ["/dev/sdb"]}]
`

var disks = session.New("local-storage: on",
	"disk node-1 /dev/sdb 64Mi block=true", "disk node-2 /dev/sdb 128Mi block=true", "apply "+class, "rest")

// records prints the reports.
func records(s *session.Session) {
	for _, obj := range s.Cluster().Server().List("nodelocalstorages.localstorage.volsim.dev") {
		status, _ := obj.(*fake.CustomObject).Content["status"].(map[string]any)
		fmt.Printf("%s  %v, %v of %v free\n", obj.GetName(), status["phase"], status["free"], status["capacity"])
	}
}

// The report of a manager is an object, a **NodeLocalStorage**: one for the class and each node. You
// would see them with "kubectl get nodelocalstorages". The group keeps some space for itself.
func reports() {
	s := disks.MustPlay()
	defer s.Close()
	records(s)
}

// ## The first pod
//
// The claim requests 40 MiB. The scheduler asks a small server next to it, an **extender**, which nodes
// have room. The extender reads the reports. It keeps both nodes, and ranks them: node-1 first, because
// less would be left there. The manager of node-1 makes the volume, and writes its report again.
func user(name, size string) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: PersistentVolumeClaim
metadata:
  name: %[1]s
spec:
  storageClassName: fast
  accessModes: [ReadWriteOnce]
  resources:
    requests:
      storage: %[2]s
---
apiVersion: v1
kind: Pod
metadata:
  name: %[1]s
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
      claimName: %[1]s
`, name, size)
}

func first() {
	s := disks.Then("apply "+user("web", "40Mi"), "rest").MustPlay()
	defer s.Close()
	records(s)
	fmt.Print(s.StateTable())
}

// ## The report is late
//
// The same again, but now the manager of node-1 crashes at a bad moment: the volume exists, the claim
// is bound, the pod runs, and the report has not been written. It still says that everything is free.
var late = disks.Then("apply "+user("web", "40Mi"), "until FinishLogicalVolume", "stop localstorage(node-1)", "rest")

func crashed() {
	s := late.MustPlay()
	defer s.Close()
	records(s)
	fmt.Print(s.StateTable())
}

// ## What the scheduler did not know
//
// A second pod comes, with a claim of 40 MiB. By the report there is room on node-1. So the scheduler
// writes "node-1" on the claim, as in lesson 3, and waits for a volume there. It has done nothing
// wrong. And as long as the manager is down, nothing happens.
var sent = late.Then("apply "+user("db", "40Mi"), "rest")

// selected returns the node on a claim.
func selected(s *session.Session, claim string) string {
	obj, _ := s.Cluster().Server().Get("persistentvolumeclaims", "default", claim)
	node := obj.GetAnnotations()["volume.kubernetes.io/selected-node"]
	if node == "" {
		return "none"
	}
	return node
}

func misled() {
	s := sent.MustPlay()
	defer s.Close()
	fmt.Println("selected node of claim db:", selected(s, "db"))
	fmt.Print(s.StateTable())
}

// ## The manager comes back
//
// Read what it does. It looks at its disk and reports the truth. It tries to make the volume, and there
// is no space. Then it removes the **selected node** from the claim. That gives the claim back to the
// scheduler, which tries again with the new report. The extender drops node-1, and the pod goes to
// node-2.
func back() {
	s := sent.MustPlay()
	defer s.Close()
	before := len(s.Records())
	s.Do("start localstorage(node-1)")
	s.Do("rest")
	for _, r := range s.Records()[before:] {
		if r.Task == "localstorage(node-1)/work" && r.Verb != "sync" && r.Verb != "EnsureVolumeGroup" {
			fmt.Println(trace.Abbreviate(r.Verb + " " + r.Object + result(r)))
		}
	}
	fmt.Println()
	records(s)
	fmt.Print(s.StateTable())
}

// result returns why an action failed, or what it changed on a claim.
func result(r trace.Record) string {
	if r.Err != nil {
		return ": " + r.Err.Error()
	}
	if changes := trace.Changes(r.Before, r.After); len(changes) > 0 {
		return ": " + strings.Join(changes, ", ")
	}
	return ""
}

var placed = sent.Then("start localstorage(node-1)", "rest")

// ## What an administrator sees
//
// Nobody watches the steps of a cluster. These are the events that remain: those of the provisioner and
// of the scheduler.
func events() {
	s := placed.MustPlay()
	defer s.Close()
	for _, event := range eventsOf(s, "db") {
		fmt.Println(event)
	}
}

// eventsOf returns the events of a claim and of its pod.
func eventsOf(s *session.Session, name string) []string {
	return slices.DeleteFunc(s.Events(), func(event string) bool { return !strings.Contains(event, "/"+name) })
}

// ## The same as a picture
//
// From the start of the manager on.
func drawn() {
	s := sent.MustPlay()
	defer s.Close()
	_, options := s.Scene()
	options.After = s.Log().Steps()
	s.Do("start localstorage(node-1)")
	s.Do("rest")
	notebook.Show(picture.Sequence(s.Log().Records(), options))
}

// ## A question
//
// A third pod wants 100 MiB. There are 20 MiB left on node-1 and 84 MiB on node-2, together enough.
// What happens?
func question() {
	s := placed.Then("apply "+user("log", "100Mi"), "rest").MustPlay()
	defer s.Close()
	notebook.Fold("What happens", strings.Join(eventsOf(s, "log"), "\n"))
}

// <details><summary>Why?</summary>
//
// The pod waits. A volume cannot be on two nodes, so what counts is the largest free piece, not the
// sum. This time the reports are true, so the scheduler writes no node on the claim, and no manager is
// asked.
//
// </details>
func answer() {}

// ## And another one
//
// Why must the manager write the report first, and clear the claim only then? Think of the other order,
// and of a scheduler that is quick.
//
// <details><summary>Because</summary>
//
// between the two writes the scheduler would see a claim without a node, and the old report. It would
// choose node-1 again. The manager would clear the claim again. With bad luck they go on like this for
// a long time, while node-2 is empty.
//
// </details>
func order() {}

func main() {
	reports()
	first()
	crashed()
	misled()
	back()
	events()
	drawn()
	question()
	answer()
	order()
}
