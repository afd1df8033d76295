// Package filesdiff compares the volumes that our kubelet makes of files with those of upstream's
// plugins, k8s.io/kubernetes 1.36.3: emptyDir, config maps, secrets, the downward API, projected
// volumes and host paths.
//
// Its test draws volumes, the objects behind them, and changes of these. It sets each volume up with
// our plugin, on a node in memory, and with upstream's, in a directory of this machine, and compares
// the two trees: names, types, targets of links, content, modes and groups. It repeats this after
// each change, and after the volumes are torn down. The names of directories that are named by the
// time count as equal.
//
// Upstream's plugins run with upstream's fake host, whose mounts are not real. So the sticky bit of
// a file system in memory is ignored.
//
// "go test -rapid.seed=0 -rapid.checks=10000" draws others, and more.
package filesdiff
