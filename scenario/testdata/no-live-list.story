# A claim is deleted while a pod that uses it is being created: the claim stays as long as the pod.
parts: pvcontroller, pvcprotection
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
  34 hold: pvcprotection/cache pods
violates: I28

   9  alice creates volume disk of 1Gi (rv 7)
  12  pvcontroller marks volume disk Available (rv 8)
  15  alice asks for 1Gi of storage: claim default/data (rv 9)
  19  pvcontroller reserves volume disk for claim default/data (rv 10)
  21  pvcontroller marks volume disk Bound (rv 11)
  23  pvcontroller binds claim default/data to volume disk (rv 12)
  26  pvcontroller marks claim default/data Bound (rv 13)
  32  alice creates pod default/web (rv 14)
  34  >> the pod cache of pvcprotection is held back from here on
  34  bob deletes claim default/data, which stays until its finalizers [kubernetes.io/pvc-protection] are gone (rv 15)
  38  pvcprotection takes the last finalizer off claim default/data, which is gone (rv 16)
      (its pod cache had not heard of step 32)
broken: I28: a claim or a volume let go while it is in use: pvcprotection/pvcprotection let claim default/data go without asking which pods there are, and pod web on node-1 uses it
