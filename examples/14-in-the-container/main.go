// # Lesson 14: look into the container
//
// In the lessons so far a pod was a box: its volumes were mounted, and it was "Running". Nothing ran in it. Now
// something does. The commands of the containers are executed, by a small shell that is part of volsim, and we look at the volume
// as the program in the container sees it.
//
// It is an ordinary directory. That is the point of all the machinery of lessons 1 to 5: the program does not know that
// it is a disk that was made an hour ago and can move to another machine. This lesson asks what that program can rely on.
package main

import (
	"context"
	"fmt"
	"log"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/volsim/volsim/examples/notebook"
	"github.com/volsim/volsim/explore/session"
	"github.com/volsim/volsim/sim/trace/picture"
)

// ## A diary
//
// The container of pod `web` writes a line into a file of its volume and then waits. A second container mounts the same
// volume too, but only a directory of it (**subPath**), and only for reading.
const claim = `
apiVersion: v1
kind: PersistentVolumeClaim
metadata:
  name: data
spec:
  accessModes: [ReadWriteOnce]
  resources:
    requests:
      storage: 64Mi
`

const pod = `
apiVersion: v1
kind: Pod
metadata:
  name: web
spec:
  nodeName: node-1
  volumes:
  - name: data
    persistentVolumeClaim:
      claimName: data
  containers:
  - name: writer
    image: busybox
    command: [sh, -c, "mkdir -p /data/pages; echo written on $NODE >> /data/pages/diary; trap exit TERM; sleep infinity"]
    env:
    - name: NODE
      valueFrom: {fieldRef: {fieldPath: spec.nodeName}}
    volumeMounts:
    - name: data
      mountPath: /data
  - name: reader
    image: nginx
    volumeMounts:
    - name: data
      mountPath: /www
      subPath: pages
      readOnly: true
`

var diary = session.New("containers: shell", "apply "+claim, "apply "+pod, "wait pod web Running", "settle")

// kubectl executes a command in a container, as "kubectl exec" does.
func kubectl(s *session.Session, pod, container, command string) {
	r, err := s.Cluster().Exec(context.Background(), "default", pod, container, "sh", "-c", command)
	check(err)
	fmt.Printf("%s$ %s\n%s%s", container, command, r.Stdout, r.Stderr)
	if r.Code != 0 {
		fmt.Printf("(exit code %d)\n", r.Code)
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func inside() {
	s := diary.MustPlay()
	defer s.Close()
	kubectl(s, "web", "writer", "find /data -type f; cat /data/pages/diary")
	kubectl(s, "web", "reader", "cat /www/diary")
	kubectl(s, "web", "reader", "echo more >> /www/diary")
}

// ## Where is it?
//
// A volume in a container is a directory of its node. The driver has mounted the disk there (lesson 4), and
// the container gets the directory under another name. So a file that someone writes on the node is at once in the
// container. There is only one file.
func outside() {
	s := diary.MustPlay()
	defer s.Close()
	at, err := s.Cluster().ContainerPath("default", "web", "writer", "/data")
	check(err)
	fmt.Println("/data of the writer is on node-1:", at)
	at, err = s.Cluster().ContainerPath("default", "web", "reader", "/www")
	check(err)
	fmt.Println("/www of the reader is on node-1: ", at)
	check(s.Cluster().WriteFile("default", "web", "data", "pages/note", []byte("from the node\n")))
	kubectl(s, "web", "reader", "cat /www/note")
}

// ## What ends with the container, and what does not
//
// The next program has a bug: after 20 seconds it exits with code 1. The kubelet starts it again, and again, each time after a
// longer pause: **CrashLoopBackOff**. Each run gets a new root directory. What the program wrote to `/tmp` is gone, what it
// wrote to the volume is not. It counts its runs in both places.
const faulty = `
apiVersion: v1
kind: Pod
metadata:
  name: faulty
spec:
  nodeName: node-1
  volumes:
  - name: data
    persistentVolumeClaim:
      claimName: data
  containers:
  - name: main
    image: busybox
    command: [sh, -c, "echo x >> /tmp/runs; echo x >> /data/runs; wc -l /tmp/runs /data/runs; sleep 20; exit 1"]
    volumeMounts:
    - name: data
      mountPath: /data
`

var loop = session.New("containers: shell", "apply "+claim, "apply "+faulty, "wait pod faulty Running", "settle", "pass 20s", "settle")

// logs returns the log of the current run of a container, or of the one before ("kubectl logs --previous").
func logs(s *session.Session, pod string, previous bool) string {
	client, err := kubernetes.NewForConfig(s.Cluster().RESTConfig())
	check(err)
	text, err := client.CoreV1().Pods("default").GetLogs(pod, &corev1.PodLogOptions{Previous: previous}).DoRaw(context.Background())
	check(err)
	return string(text)
}

// The log of the run that has crashed remains until the next one crashes.
func crashes() {
	s := loop.MustPlay()
	defer s.Close()
	fmt.Printf("$ kubectl logs faulty\n%s\n$ kubectl logs faulty --previous\n%s", logs(s, "faulty", false), logs(s, "faulty", true))
	for _, op := range []string{"pass 20s", "settle"} {
		check(s.Do(op))
	}
	obj, _ := s.Cluster().Server().Get("pods", "default", "faulty")
	status := obj.(*corev1.Pod).Status.ContainerStatuses[0]
	fmt.Printf("\n20 seconds later: %s, %s\n", status.State.Waiting.Reason, status.State.Waiting.Message)
}

// ## The pod moves, and the data follow
//
// Pod `web` is deleted, and created again on node-2. Nothing is copied. The disk is taken off one machine
// and put into the other, and the program appends to the same file.
var moved = diary.Then("delete pod web", "wait pod web gone",
	"apply "+strings.Replace(pod, "nodeName: node-1", "nodeName: node-2", 1), "wait pod web Running", "settle")

func onTheOtherNode() {
	s := moved.MustPlay()
	defer s.Close()
	kubectl(s, "web", "reader", "cat /www/diary")
}

// ## As a picture
//
// From the deletion of the pod on.
func drawn() {
	s := diary.MustPlay()
	defer s.Close()
	_, options := s.Scene()
	options.After = s.Log().Steps()
	for _, op := range moved[len(diary):] {
		check(s.Do(op))
	}
	notebook.Show(picture.Sequence(s.Log().Records(), options))
}

// ## A question
//
// A database makes its file when it starts for the first time. Its author was careful: if the file exists, it is left as it is.
const database = `
apiVersion: v1
kind: Pod
metadata:
  name: db
spec:
  nodeName: node-1
  volumes:
  - name: data
    persistentVolumeClaim:
      claimName: data
  containers:
  - name: main
    image: busybox
    command: [sh, -c, "test -e /data/db || echo ten tables > /data/db; trap exit TERM; sleep infinity"]
    volumeMounts:
    - name: data
      mountPath: /data
`

// until runs the world until a container has accessed a file in some way.
func until(s *session.Session, verb, file string) {
	for {
		check(s.Do("step"))
		all := s.Records()
		if last := all[len(all)-1]; last.Verb == verb && last.Object == file {
			return
		}
	}
}

// The command `echo ten tables > /data/db` is two accesses to the disk: one creates the file, one writes to it. The node loses
// its power between the two, and boots again. The volume is intact. The container starts again. What does it find?
func question() {
	s := session.New("containers: shell", "apply "+claim, "apply "+database).MustPlay()
	defer s.Close()
	until(s, "create", "/data/db")
	for _, op := range []string{"reboot node-1", "rest"} {
		check(s.Do(op))
	}
	r, err := s.Cluster().Exec(context.Background(), "default", "db", "main", "wc", "-c", "/data/db")
	check(err)
	notebook.Fold("What the database finds", r.Stdout)
}

// <details><summary>Why?</summary>
//
// The file exists, and is empty. The new run finds it, and leaves it as it is: the tables will never be made. What a
// program has written and not **synced** may be lost when its node fails, also on a real machine, where it is still in memory.
// No volume can help here. It keeps what reached it.
//
// </details>
func answer() {}

// ## And the remedy?
//
// How would you write the command, so that the file is either complete or does not exist?
//
// <details><summary>One way</summary>
//
// `echo ten tables > /data/db.new && sync && mv /data/db.new /data/db`. Renaming is one access: it happens or it does not. All
// databases do something like it.
//
// </details>
func remedy() {}

// ## At every access
//
// The same world with the remedy. The node fails after each access in turn. In the end the file always has its eleven bytes.
func everyAccess() {
	safe := strings.Replace(database, "echo ten tables > /data/db", "{ echo ten tables > /data/db.new && sync && mv /data/db.new /data/db; }", 1)
	for _, at := range []struct{ verb, file string }{
		{"create", "/data/db.new"}, {"write", "/data/db.new"}, {"sync", "/"}, {"rename", "/data/db.new"},
	} {
		s := session.New("containers: shell", "apply "+claim, "apply "+safe).MustPlay()
		until(s, at.verb, at.file)
		check(s.Do("reboot node-1"))
		check(s.Do("rest"))
		r, err := s.Cluster().Exec(context.Background(), "default", "db", "main", "wc", "-c", "/data/db")
		check(err)
		fmt.Printf("power lost after %-6s %-13s %s", at.verb, at.file, r.Stdout)
		s.Close()
	}
}

func main() {
	inside()
	outside()
	crashes()
	onTheOtherNode()
	drawn()
	question()
	answer()
	remedy()
	everyAccess()
}
