"""The experiments of the MWEM paper (Hardt, Ligett, McSherry, NIPS 2012) replayed. NOT PRIVATE."""
