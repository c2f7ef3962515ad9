"""APIs of gangs: how pods and objects say which pods are placed together. One file for each."""
