// The program as a constant in flash; it is executed where it lies.
    .section .program, "a"
    .balign 16
    .global model_program
    .global model_program_end
model_program:
    .incbin "program.pte"
model_program_end:
