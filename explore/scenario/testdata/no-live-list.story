# A claim is deleted while a pod that uses it is being created: the claim stays as long as the pod.
components: pvcontroller, pvcprotection
faults: conflict(0.05), refused(0.03), lost(0.05), relist(0.02), expire(0.01), tick(0.01), crash(pvcontroller, 1), crash(pvcprotection, 1), crash(pvprotection, 1), stop(pvcontroller, 0.003), replicate(pvcontroller, 0.003)
rules: I28
ends: differ
user alice
  create volume disk 1Gi
  create claim data 1Gi class=
  create pod web data on=node-1
user bob
  wait claim data Bound
  delete claim data
schedule
  28 hold: pvcprotection/cache pods
violates: I28

   3  alice creates volume disk of 1Gi (rv 7)
   6  pvcontroller marks volume disk Available (rv 8)
   9  alice creates claim default/data of 1Gi (rv 9)
  13  pvcontroller reserves volume disk for claim default/data (rv 10)
  15  pvcontroller marks volume disk Bound (rv 11)
  17  pvcontroller binds claim default/data to volume disk (rv 12)
  20  pvcontroller marks claim default/data Bound (rv 13)
  26  alice creates pod default/web (rv 14)
  28  >> the pod cache of pvcprotection is held from here on
  28  bob deletes claim default/data, which remains until its finalizers [kubernetes.io/pvc-protection] are removed (rv 15)
  32  pvcprotection removes the last finalizer from claim default/data (rv 16)
      (its pod cache has not seen step 26)
violation: I28: the protection finalizer removed from a claim or volume in use: pvcprotection/pvcprotection removed the finalizer of claim default/data without listing pods, although pod web on node-1 uses it
