// # Lesson 11: the first pod
//
// The first storage example of the Kubernetes documentation has three objects: a **PersistentVolume**
// that is a directory of a node, a **claim** that asks for 3Gi, and a **pod** that runs nginx. A
// user puts a file into the directory, and nginx serves it.
//
// This lesson runs that example, and then asks what the tutorial does not say: whose file is it?
package main

import (
	"errors"
	"fmt"
	"io/fs"
	"log"
	"strings"

	"github.com/volsim/volsim/examples/notebook"
	"github.com/volsim/volsim/explore/session"
	"github.com/volsim/volsim/sim/trace/picture"
)

// ## Three objects
//
// The class `manual` has no driver behind it. It is only a word: a volume and a claim with the same
// class find each other. The volume offers 10Gi and the claim wants 3Gi, so the claim gets all 10Gi.
const objects = `
apiVersion: v1
kind: PersistentVolume
metadata:
  name: task-pv-volume
  labels:
    type: local
spec:
  storageClassName: manual
  capacity:
    storage: 10Gi
  accessModes: [ReadWriteOnce]
  hostPath:
    path: /mnt/data
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata:
  name: task-pv-claim
spec:
  storageClassName: manual
  accessModes: [ReadWriteOnce]
  resources:
    requests:
      storage: 3Gi
`

const pod = `
apiVersion: v1
kind: Pod
metadata:
  name: task-pv-pod
spec:
  volumes:
  - name: task-pv-storage
    persistentVolumeClaim:
      claimName: task-pv-claim
  containers:
  - name: task-pv-container
    image: nginx
    ports:
    - containerPort: 80
      name: http-server
    volumeMounts:
    - mountPath: /usr/share/nginx/html
      name: task-pv-storage
`

// page is the file on the node.
const page = "/mnt/data/index.html"

// writePage puts the file into the directory of node-1, as the tutorial does in a shell of the node.
func writePage(s *session.Session) {
	node, err := s.Cluster().Machine("node-1")
	check(errors.Join(err, node.FS.MkdirAll(node.Path("/mnt/data")),
		node.FS.WriteFile(node.Path(page), []byte("Hello from Kubernetes storage"))))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

var bound = session.New("apply "+objects, "wait claim task-pv-claim Bound", "rest")

func claimGetsTheVolume() {
	s := bound.MustPlay()
	defer s.Close()
	fmt.Print(s.StateTable())
}

// ## The file on the node is the file in the pod
//
// The file is written to the node. Then the pod starts, and its container finds the file where it
// mounts the volume. Nothing is copied, and nothing is attached or mounted on the node: the container
// gets the directory itself.
func pageIsInThePod() {
	s := bound.MustPlay()
	defer s.Close()
	writePage(s)
	s.Do("apply " + on("node-1", "task-pv-pod"))
	s.Do("wait pod task-pv-pod Running")
	at, err := s.Cluster().ContainerPath("default", "task-pv-pod", "task-pv-container", "/usr/share/nginx/html")
	check(err)
	text, err := s.Cluster().ReadFile("default", "task-pv-pod", "task-pv-storage", "index.html")
	check(err)
	fmt.Println("the container has", at)
	fmt.Printf("it serves: %s\n", text)
}

// on returns the pod with a node and a name.
func on(node, name string) string {
	return strings.Replace(pod, "name: task-pv-pod\nspec:\n", "name: "+name+"\nspec:\n  nodeName: "+node+"\n", 1)
}

// ## As a sequence
//
// From the creation of the pod until it runs. Compare it with lesson 4, where the volume is a disk: no
// attach/detach controller, no attacher and no driver has anything to do.
func drawn() {
	s := bound.MustPlay()
	defer s.Close()
	writePage(s)
	_, options := s.Scene()
	options.After = s.Log().Steps()
	s.Do("apply " + on("node-1", "task-pv-pod"))
	s.Do("wait pod task-pv-pod Running")
	notebook.Show(picture.Sequence(s.Log().Records(), options))
}

// ## All is deleted
//
// The pod goes, then the claim. The volume is **Released**: its policy is Retain, so that no other
// claim gets the data. Even when the volume is deleted, the file is still on the node. Kubernetes did not
// write it, and does not delete it.
func fileStays() {
	s := bound.MustPlay()
	defer s.Close()
	writePage(s)
	for _, op := range []string{
		"apply " + on("node-1", "task-pv-pod"), "wait pod task-pv-pod Running", "delete pod task-pv-pod",
		"wait pod task-pv-pod gone", "delete claim task-pv-claim", "wait claim task-pv-claim gone", "rest",
	} {
		s.Do(op)
	}
	fmt.Print(s.StateTable())
	s.Do("delete volume task-pv-volume")
	s.Do("rest")
	node, err := s.Cluster().Machine("node-1")
	check(err)
	text, err := node.FS.ReadFile(node.Path(page))
	check(err)
	fmt.Printf("%s on node-1: %s\n", page, text)
}

// ## A question
//
// The tutorial warns: "hostPath is for a cluster of one node". Here are two. The pod is deleted, and the
// next one runs on node-2, with the same claim. What does it find?
func question() {
	s := bound.MustPlay()
	defer s.Close()
	writePage(s)
	for _, op := range []string{
		"apply " + on("node-1", "task-pv-pod"), "wait pod task-pv-pod Running", "delete pod task-pv-pod",
		"wait pod task-pv-pod gone", "apply " + on("node-2", "next"), "wait pod next Running",
	} {
		s.Do(op)
	}
	_, err := s.Cluster().ReadFile("default", "next", "task-pv-storage", "index.html")
	notebook.Fold("What the pod on node-2 finds", fmt.Sprintf("pod next runs; it finds index.html: %t\n", !errors.Is(err, fs.ErrNotExist)))
}

// <details><summary>Why?</summary>
//
// A hostPath volume is a path, not a disk. The claim is the same and the path is the same, but it is a
// path of another machine, and an empty directory was created there. No component notices: the volume
// does not say on which node its data is. A **local** volume does: it has a node affinity, and the
// scheduler places pods where their data is (lesson 12).
//
// </details>
func answer() {}

func main() {
	claimGetsTheVolume()
	pageIsInThePod()
	drawn()
	fileStays()
	question()
	answer()
}
