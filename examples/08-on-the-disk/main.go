// # Lesson 8: where the bytes are
//
// A pod writes a file to its volume. Where are its bytes on the machine? What happens to them when
// the pod is deleted, and when the claim is deleted?
//
// The answer depends on the driver. This lesson asks two of them. One creates a **file** for each
// volume, and a loop device turns it into a disk. The other allocates **extents** from a volume group
// of LVM, the logical volume manager of Linux. The pod cannot tell the difference.
//
// Both drivers are real, so this lesson requires Linux, root and lvm2.
package main

import (
	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/examples/live"
	"github.com/volsim/volsim/examples/notebook"
	"github.com/volsim/volsim/explore/session"
	"github.com/volsim/volsim/sim/trace/picture"
)

// ## A diary
//
// The claim asks for 64 MiB. Its pod writes a line into a file. (Containers do not run here, so the
// lesson itself writes the line, in the directory that the container would get.)
const manifest = `
apiVersion: v1
kind: PersistentVolumeClaim
metadata:
  name: data
spec:
  accessModes: [ReadWriteOnce]
  resources:
    requests:
      storage: 64Mi
---
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

// withDiary returns a cluster with the claim and the pod, whose volume has the file.
func withDiary(devices cluster.Devices) *live.Cluster {
	c := live.Start(devices)
	c.Do("apply "+manifest, "wait pod web Running")
	c.Shell("echo 'dear diary' > " + c.Mount("web", "data") + "/diary.txt; sync")
	return c
}

// ## A file on the machine
//
// With the first driver, the volume is a file of 64 MiB, the one that ends in `img`. The other two are
// the driver's notes. Search the volume for the text: the pod's bytes are in there, somewhere in its
// file system.
func inAFile() {
	c := withDiary(cluster.Loop)
	defer c.Close()
	c.Shell("ls volumes")
	c.Shell("grep -l 'dear diary' volumes/*.img")
	c.Shell("du -m --apparent-size volumes/*.img")
}

// ## How much of it is real
//
// The file is **sparse**: blocks that were never written take no space. So a disk can promise more
// than it has. When it is full, it is full for all volumes at once.
func sparse() {
	c := withDiary(cluster.Loop)
	defer c.Close()
	c.Shell("test $(du -m volumes/*.img | cut -f 1) -lt 16 && echo 'less than 16 MiB are allocated'")
}

// ## The pod is deleted
//
// Its volume is unmounted and detached: the loop device, which the driver has noted in the file that
// ends in `attached`, is gone. The bytes are still there. They belong to the claim, not to the pod.
func podDeleted() {
	c := withDiary(cluster.Loop)
	defer c.Close()
	c.Do("delete pod web", "wait pod web gone")
	c.Shell("ls volumes")
	c.Shell("grep -l 'dear diary' volumes/*.img")
}

// ## The claim is deleted
//
// The claim's storage class has the reclaim policy Delete. So the volume is deleted with its claim,
// and the bytes with the volume.
func claimDeleted() {
	c := withDiary(cluster.Loop)
	defer c.Close()
	c.Do("delete pod web", "wait pod web gone", "delete claim data", "wait claim data gone")
	c.Shell("ls volumes | wc -l")
}

// ## The life of the volume
//
// The same life, simulated, as a picture. The volume outlives its pod. It is deleted after its claim.
func life() {
	s := session.New("nodes: 1", "apply "+manifest, "wait pod web Running", "delete pod web", "rest", "delete claim data", "rest").MustPlay()
	defer s.Close()
	notebook.Show(picture.Timeline(s.Scene()))
}

// ## Extents
//
// The second driver has one large disk, pv0. (LVM calls it a physical volume. It is not a
// PersistentVolume.) The disk is divided into extents of 4 MiB. A logical volume is a list of
// extents: here 16 of them, from number 0 to number 15. They belong to this volume only, so nothing
// is promised that does not exist. The bytes are within the first 100 MiB of the disk.
func extents() {
	c := withDiary(cluster.LVM)
	defer c.Close()
	c.Shell("lvm lvs --noheadings --separator ' ' -o lv_name,lv_size,seg_pe_ranges 2>/dev/null")
	c.Shell("head -c 100M disk-node-1 | grep -c 'dear diary'")
}

// ## A question
//
// The pod and the claim are deleted. The extents are free again, and the next claim gets them. Can
// its pod find the diary, if it searches the whole device?
func question() {
	c := withDiary(cluster.LVM)
	defer c.Close()
	c.Do("delete pod web", "wait pod web gone", "delete claim data", "wait claim data gone")
	c.Do("create claim next 64Mi", "create pod reader next", "wait pod reader Running")
	notebook.Fold("The extents of the next volume", c.Output("lvm lvs --noheadings --separator ' ' -o lv_name,lv_size,seg_pe_ranges 2>/dev/null"))
	notebook.Fold("Lines with the diary on the disk", c.Output("head -c 100M disk-node-1 | grep -c 'dear diary'; true"))
}

// <details><summary>Why?</summary>
//
// The next volume has the same extents, and the diary is not there. When this driver deletes a
// volume, it overwrites or discards its extents first. CSI does not require that. With a driver that
// does not do it, a pod with a raw block device could read what another pod has left. A new file
// system hides the old bytes, but does not remove them.
//
// </details>
func answer() {}

// ## Another question
//
// A claim asks for 65 MiB. How large is its volume with each driver?
func sizes() {
	for _, devices := range []cluster.Devices{cluster.Loop, cluster.LVM} {
		notebook.Fold(string(devices), sizeOn(devices))
	}
}

// sizeOn returns the capacity of a claim of 65 MiB.
func sizeOn(devices cluster.Devices) string {
	c := live.Start(devices)
	defer c.Close()
	c.Do("create claim data 65Mi", "create pod web data", "wait pod web Running")
	return c.Capacity("data")
}

// <details><summary>Why?</summary>
//
// A file can have any size. An extent cannot be divided, so the second driver rounds up to 17 extents,
// 68 MiB. A claim's capacity is the size of its volume, which may exceed the request.
//
// </details>
func sizesAnswer() {}

func main() {
	inAFile()
	sparse()
	podDeleted()
	claimDeleted()
	life()
	extents()
	question()
	answer()
	sizes()
	sizesAnswer()
}
