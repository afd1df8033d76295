// Package registrar is the node-driver-registrar of one CSI driver on one node: it reports the
// driver's name and socket to the kubelet, and stores the registration status.
//
//	r := registrar.New("disk.example.com", "/var/lib/kubelet/plugins/disk/csi.sock")
//	r.Register(server) // the server of the registration socket
//	registered, reason, answered := r.Status()
//
// Discover asks the driver for its name, as upstream does when it starts.
//
// What it does not do: it creates no socket, and it does not exit when the kubelet rejects the driver.
//
// Upstream: node-driver-registrar 2.17.
package registrar
