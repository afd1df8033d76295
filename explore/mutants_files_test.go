package explore_test

import (
	"path"
	"strings"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/plugins/nodefs"
)

// filesMutants break volumes that a kubelet keeps on its node's disk.
var filesMutants = []mutant{
	{
		name: "a restarted kubelet mounts memory on memory", rule: "I41",
		scenario: nodeComponents + once("kubelet(node-1)", "crash") + usesFiles, between: filesDisk(forgetsMarkers),
		config: restarts, within: 60,
	},
	{
		name: "an emptyDir is emptied when a kubelet sets it up again", rule: "I41",
		scenario: nodeComponents + once("kubelet(node-1)", "crash") + usesFiles, between: filesDisk(emptiesAgain),
		config: restarts, within: 60,
	},
	{
		name: "an update is written to the files that the pod reads", rule: "I42",
		scenario: nodeComponents + usesFiles, between: filesDisk(writesInPlace), config: holds, within: 1,
	},
	{
		name: "an update removes the old files before it writes the new ones", rule: "I42",
		scenario: nodeComponents + usesFiles, between: filesDisk(removesBefore), config: holds, within: 1,
	},
	{
		name: "the files of a deleted pod stay", rule: "L6",
		scenario: nodeComponents + "rules: L6\n" + usesFiles, between: filesDisk(keepsFiles), config: holds, within: 1,
	},
}

// usesFiles is a pod with an emptyDir on the disk and one in memory, and the files of a config map.
const usesFiles = `
user alice
  apply
    apiVersion: v1
    kind: ConfigMap
    metadata: {name: config}
    data: {color: blue, shape: round}
  apply
    apiVersion: v1
    kind: Pod
    metadata: {name: web}
    spec:
      nodeName: node-1
      volumes:
      - {name: scratch, emptyDir: {}}
      - {name: memory, emptyDir: {medium: Memory}}
      - {name: config, configMap: {name: config}}
      containers:
      - name: main
        image: pause
        volumeMounts:
        - {name: scratch, mountPath: /scratch}
        - {name: memory, mountPath: /memory}
        - {name: config, mountPath: /config}
  wait pod web Running
  write pod web scratch
  write pod web memory
  patch configmap config data.color=red data.shape=null data.size="3"
  pass 2m
  delete pod web
`

// brokenFiles is a node's disk with defects of volumes.
type brokenFiles struct {
	nodefs.FS
	exists    func(name string) (bool, error)
	mkdirAll  func(name string) error
	writeFile func(name string, data []byte) error
	removeAll func(name string) error
}

func (d brokenFiles) Exists(name string) (bool, error)         { return d.exists(name) }
func (d brokenFiles) MkdirAll(name string) error               { return d.mkdirAll(name) }
func (d brokenFiles) WriteFile(name string, data []byte) error { return d.writeFile(name, data) }
func (d brokenFiles) RemoveAll(name string) error              { return d.removeAll(name) }

// filesDisk intercepts the disks of kubelets. mutate changes the correct one, for each kubelet.
func filesDisk(mutate func(d *brokenFiles)) func() cluster.Interceptors {
	return func() cluster.Interceptors {
		return cluster.Interceptors{FS: func(_ string, own nodefs.FS) nodefs.FS {
			d := brokenFiles{own, own.Exists, own.MkdirAll, own.WriteFile, own.RemoveAll}
			mutate(&d)
			return d
		}}
	}
}

// forgetsMarkers finds only the markers that the same process has written, and mounts.
func forgetsMarkers(d *brokenFiles) {
	written := map[string]bool{}
	d.writeFile = func(name string, data []byte) error {
		written[name] = true
		return d.FS.WriteFile(name, data)
	}
	d.exists = func(name string) (bool, error) {
		if path.Base(name) == "ready" && !written[name] {
			return false, nil
		}
		return d.FS.Exists(name)
	}
	d.mkdirAll = func(name string) error {
		if mounted, err := d.FS.IsMountPoint(name); err == nil && mounted {
			return d.FS.MountTmpfs(name, 0)
		}
		return d.FS.MkdirAll(name)
	}
}

// emptiesAgain finds no marker either, and removes what is in the directory.
func emptiesAgain(d *brokenFiles) {
	forgetsMarkers(d)
	d.mkdirAll = func(name string) error {
		names, err := d.FS.ReadDir(name)
		if err == nil && strings.Contains(name, "~empty-dir/") && strings.Contains(name, "/volumes/") {
			for _, inner := range names {
				_ = d.FS.RemoveAll(path.Join(name, inner))
			}
		}
		return d.FS.MkdirAll(name)
	}
}

// currentDir returns the directory of the current files of a volume, of which name is a file of the
// next ones; "" if there is none.
func (d *brokenFiles) currentDir(name string) string {
	dir, _, found := strings.Cut(name, "/..")
	link, err := d.FS.Readlink(dir + "/..data")
	if !found || err != nil {
		return ""
	}
	return path.Join(dir, link)
}

// writesInPlace writes each new file also to the current ones.
func writesInPlace(d *brokenFiles) {
	d.writeFile = func(name string, data []byte) error {
		if dir := d.currentDir(name); dir != "" {
			_ = d.FS.WriteFile(path.Join(dir, path.Base(name)), data)
		}
		return d.FS.WriteFile(name, data)
	}
}

// removesBefore removes the current files before it writes new ones.
func removesBefore(d *brokenFiles) {
	d.mkdirAll = func(name string) error {
		if dir := d.currentDir(name); dir != "" && !strings.Contains(path.Base(name), "data") {
			_ = d.FS.RemoveAll(dir)
		}
		return d.FS.MkdirAll(name)
	}
}

// keepsFiles reports the removal of a volume without removing it.
func keepsFiles(d *brokenFiles) {
	d.removeAll = func(name string) error {
		if strings.Contains(path.Dir(name), "/volumes/kubernetes.io~") && !strings.Contains(name, "/..") {
			return nil
		}
		return d.FS.RemoveAll(name)
	}
}
