package conformance_test

import (
	"path/filepath"
	"regexp"
	"strings"
)

// snapshotOfClaim is the snapshot of the tutorial in the documentation of CSI: of a claim, with a class.
const snapshotOfClaim = `
apiVersion: snapshot.storage.k8s.io/v1
kind: VolumeSnapshot
metadata: {name: csi-snapshot}
spec: {volumeSnapshotClassName: standard, source: {persistentVolumeClaimName: csi}}
`

// restoredClaim is a claim that is made from it.
const restoredClaim = `
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: csi-restored}
spec:
  dataSource: {apiGroup: snapshot.storage.k8s.io, kind: VolumeSnapshot, name: csi-snapshot}
  accessModes: [ReadWriteOnce]
  resources: {requests: {storage: 64Mi}}
`

// snapshotRow is what kubectl prints of the snapshot.
var snapshotRow = regexp.MustCompile(`^NAME +READYTOUSE +SOURCEPVC +SOURCESNAPSHOTCONTENT +RESTORESIZE +SNAPSHOTCLASS +SNAPSHOTCONTENT +CREATIONTIME +AGE
csi-snapshot +true +csi +\d+Mi +standard +snapcontent-[0-9a-f-]{36} +\d+s +\d+s
$`)

// testKubectlSnapshot takes a snapshot of the claim "csi", whose pod has written a file and then changes it, and
// finds the file in a volume that is made from the snapshot.
func testKubectlSnapshot(k kubectlOf, w volumesWorld) {
	classes := k.run("", "get", "volumesnapshotclass")
	if !regexp.MustCompile(`(?m)^standard +\w+\.csi\.volsim\.dev +Delete +\d+s$`).MatchString(classes) {
		k.Errorf("classes:\n%s", classes)
	}
	k.run(snapshotOfClaim, "apply", "-f", "-")
	k.run("", "wait", "--for=jsonpath={.status.readyToUse}=true", "volumesnapshot/csi-snapshot", "--timeout=60s")
	if out := k.run("", "get", "volumesnapshot"); !snapshotRow.MatchString(out) {
		k.Errorf("kubectl get volumesnapshot:\n%s", out)
	}
	content := k.run("", "get", "volumesnapshotcontent")
	if !regexp.MustCompile(`(?m)^snapcontent-\S+ +true +\d+ +Delete +\w+\.csi\.volsim\.dev +standard +csi-snapshot +default +\d+s$`).MatchString(content) {
		k.Errorf("kubectl get volumesnapshotcontent:\n%s", content)
	}
	description := k.run("", "describe", "volumesnapshot", "csi-snapshot")
	for _, want := range []string{
		"Persistent Volume Claim Name:  csi", "Ready To Use:  ", "Bound Volume Snapshot Content Name:  snapcontent-",
		"snapshot.storage.kubernetes.io/volumesnapshot-bound-protection", "CreatingSnapshot", "SnapshotCreated", "SnapshotReady",
	} {
		if !strings.Contains(description, want) {
			k.Errorf("kubectl describe volumesnapshot: no %q in\n%s", want, description)
		}
	}
	at := func(pod string) (read func() (string, error), write func(text string) error) {
		fs, path, err := w.mountPath(kubectlVolume{pod: pod})
		if err != nil {
			k.Fatal(err)
		}
		file := filepath.Join(path, "csi")
		return func() (string, error) {
			text, err := fs.ReadFile(file)
			return string(text), err
		}, func(text string) error { return fs.WriteFile(file, []byte(text)) }
	}
	readSource, write := at("csi")
	if err := write("changed"); err != nil {
		k.Fatal(err)
	}
	node := k.run("", "get", "pod", "csi", "-o", "jsonpath={.spec.nodeName}")
	restored := kubectlVolume{
		pod: "csi-restored", volume: "persistentVolumeClaim: {claimName: csi-restored}", objects: restoredClaim,
		node: node, // a snapshot of a logical volume is in the volume group of its node
	}
	k.run(restored.manifest(), "apply", "-f", "-")
	k.run("", "wait", "--for=condition=Ready", "pod/csi-restored", "--timeout=60s")
	readRestored, _ := at("csi-restored")
	for want, read := range map[string]func() (string, error){"written": readRestored, "changed": readSource} {
		if got, err := read(); got != want || err != nil {
			k.Errorf("got %q, %v, want %q", got, err, want)
		}
	}
	k.run(restored.manifest(), "delete", "-f", "-", "--timeout=60s")
	k.run("", "delete", "volumesnapshot", "csi-snapshot", "--timeout=60s")
	if out := k.run("", "get", "volumesnapshot,volumesnapshotcontent", "--all-namespaces"); out != "No resources found\n" {
		k.Errorf("after the deletion: %s", out)
	}
	if err := write("written"); err != nil { // as the other volumes have it
		k.Error(err)
	}
}
