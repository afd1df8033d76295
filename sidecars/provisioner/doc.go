// Package provisioner is the external-provisioner of one CSI driver: it makes a volume for each claim that asks the
// driver for one, and deletes the volumes that are released.
//
// [New] registers what happens with claims, volumes, classes and attachments. A claim becomes a CreateVolume call and,
// from its answer, a PersistentVolume object; a released PersistentVolume becomes a DeleteVolume call and the deletion of
// the object. Deciding is in functions over objects (claim.go, volume.go, class.go); doing is one driver call or one
// API request at a time, each of which may fail and is then tried again from what the API server holds.
//
// A CreateVolume call that may have had its effect although it failed is repeated, word for word, until its outcome is
// known, whatever becomes of the claim meanwhile; and a volume that was made gets its object, however long saving takes.
// So a volume never exists without somebody who will either show it or delete it, unless this process itself is lost
// between the call and the object, as upstream's can be.
//
// With [Config].Topology the driver is told where a volume is to be usable, and the volume says on which nodes it is. A claim
// whose volume is cloned is kept until the clone is there.
//
// Not here: restores of snapshots (refused), VolumeAttributesClass (refused), migration from in-tree plugins, secrets
// (those a class names are not read), CSIStorageCapacity objects, deployment on each node, leader election, and the time
// limit of a driver call.
//
// Upstream: external-provisioner 6.3.0, sig-storage-lib-external-provisioner v13.0.0.
package provisioner
