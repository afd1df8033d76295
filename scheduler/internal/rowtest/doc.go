// Package rowtest runs tables of a plugin's decisions that are written as text, one fact a line:
//
//	row 1
//	pod web-0 app=web {spec: {nodeSelector: {disk: ssd}}}
//	node a disk=ssd
//	node b
//	on default/db-0@a app=db
//	filter a ok
//	filter b UnschedulableAndUnresolvable: node(s) didn't match Pod's node affinity/selector
//
// An object is its name, its labels and the rest of it as YAML; a pod's name may have a namespace and a node.
// A node is ready unless its conditions say otherwise. The other lines:
//
//	args {...}             the arguments of the plugin
//	error TEXT             the error of the arguments
//	namespace, service, replicaset, statefulset, replicationcontroller OBJECT  for the informers
//	prefilter STATUS       what PreFilter answers if it is not ok; the row ends there
//	names NODE...          the nodes that PreFilter names
//	add POD, remove POD    what AddPod and RemovePod are called with before Filter
//	prescore STATUS        what PreScore answers if it is not ok; the row ends there
//	score NODE N           the score after Normalize; the nodes of such lines are the feasible ones
//	old KIND OBJECT, new KIND OBJECT, hint queue|skip  an event, and whether it makes the pod be tried again
//
// The rows are those of upstream's tests: what upstream's plugins answer to these objects.
package rowtest
