# Two claims and one volume: one claim gets it, and the other waits until there is a second one.
parts: pvcontroller
rules: I1
user alice
  create volume disk-1 1Gi
  create claim mail 1Gi class=
user bob
  create claim wiki 1Gi class=
user carol
  wait volume disk-1 Bound
  create volume disk-2 1Gi
  wait claim mail Bound
  wait claim wiki Bound
violates: L7

   8  alice creates volume disk-1 of 1Gi (rv 7)
broken: L7: nothing is left to happen, but
  carol waits for volume disk-1 to be Bound
